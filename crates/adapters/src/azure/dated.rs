//! The server's clock: `object_store` passes the extensions of an answer on, and its headers not.
//! Must not change anything else about a request or an answer.

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

/// The header `Date` of an answer, as it stands there.
#[derive(Debug, Clone)]
pub(super) struct ServerDate(pub(super) String);

/// Makes clients whose answers have their date among the extensions.
#[derive(Debug)]
pub(super) struct DatedConnector;

impl HttpConnector for DatedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Dated(
            ReqwestConnector::default().connect(options)?,
        )))
    }
}

#[derive(Debug)]
struct Dated(HttpClient);

#[async_trait]
impl HttpService for Dated {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let mut answer = self.0.execute(request).await?;
        let date = answer
            .headers()
            .get("date")
            .and_then(|date| date.to_str().ok())
            .map(str::to_owned);
        if let Some(date) = date {
            answer.extensions_mut().insert(ServerDate(date));
        }
        Ok(answer)
    }
}
