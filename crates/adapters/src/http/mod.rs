//! Services of the settings over HTTP.
//!
//! Must not let anything but the settings say where a request goes: no redirect is followed, and a
//! URL that is not the service's own with the call's path behind it is not asked. Secrets of the
//! settings go into headers and nowhere else.

mod answer;
mod settings;
mod webhooks;

pub use settings::{OpenError, ServiceSettings, Token};
pub use webhooks::ReqwestWebhooks;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use counterstep_kernel::ports::{
    HttpServices, Method, ServiceAnswer, ServiceError, ServiceRequest,
};
use counterstep_steps::error::chain;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url};
use settings::Service;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

/// Clients of the services that the settings name.
#[derive(Debug, Clone, Default)]
pub struct ReqwestServices(Arc<BTreeMap<String, Service>>);

impl ReqwestServices {
    /// Makes a client of each. Connects to no service, but reads the files that the settings name,
    /// to check that it can.
    ///
    /// # Errors
    /// [`OpenError`], naming the setting at fault.
    pub fn open(services: &BTreeMap<String, ServiceSettings>) -> Result<Self, OpenError> {
        let opened = services
            .iter()
            .map(|(name, given)| Ok((name.clone(), Service::open(name, given)?)));
        Ok(Self(Arc::new(opened.collect::<Result<_, OpenError>>()?)))
    }
}

#[async_trait]
impl HttpServices for ReqwestServices {
    async fn call(&self, request: ServiceRequest) -> Result<ServiceAnswer, ServiceError> {
        let Some(service) = self.0.get(&request.service) else {
            return Err(ServiceError::Unknown(request.service));
        };
        let url = url_below(&service.url, &request.path)?;
        // At every call: an operator who renews a secret replaces its file and restarts nothing.
        let secrets = service.secrets().map_err(|error| {
            // Where the files lie is for those who run this, and not for those who read the task.
            tracing::error!(
                service = request.service,
                error = chain(&error),
                "a secret cannot be read"
            );
            ServiceError::NotSent(format!("{}: see the log of this host", error.setting()))
        })?;
        let headers = headers(&request, &secrets)?;
        let sent = send(&service.client, request.method, url, headers, request.body).await;
        let answered = async { read(sent?, request.longest_answer).await }.await;
        let mut answer = answered.map_err(|error: reqwest::Error| {
            // Without a connection no byte has left. One that was kept from before and breaks is no
            // such error.
            let unsent = error.is_connect();
            let why = chain(&error.without_url());
            if unsent {
                ServiceError::NotSent(why)
            } else {
                ServiceError::Unanswered(why)
            }
        })?;
        for (_, secret) in &secrets {
            answer.body = answer::without(answer.body, secret);
        }
        Ok(answer)
    }

    fn knows(&self, service: &str) -> bool {
        self.0.contains_key(service)
    }
}

/// The call's path behind the service's URL, and nothing else: a parser that made anything of it
/// but its own text has found a way elsewhere in it.
fn url_below(base: &Url, path: &str) -> Result<Url, ServiceError> {
    let text = format!("{}{path}", base.as_str().trim_end_matches('/'));
    let parsed = Url::parse(&text)
        .ok()
        .filter(|url| url.as_str() == text && path.starts_with('/'));
    parsed.ok_or_else(|| {
        ServiceError::Refused(format!(
            "`{}` is no path below a service's URL: expected a slash, and escaped segments behind it",
            path.escape_debug()
        ))
    })
}

fn headers(
    request: &ServiceRequest,
    secrets: &[(String, String)],
) -> Result<HeaderMap, ServiceError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        match HeaderValue::from_str(value) {
            Ok(value) => drop(headers.insert(*name, value)),
            // What a client sent as its trace is no reason to fail the step.
            Err(_) if *name == "traceparent" => {}
            Err(_) => {
                return Err(ServiceError::Refused(format!(
                    "`{}` cannot be sent as the header `{name}`: the names of steps that call services are ASCII",
                    value.escape_debug()
                )));
            }
        }
    }
    for (name, secret) in secrets {
        let value = if name == AUTHORIZATION.as_str() {
            format!("Bearer {secret}")
        } else {
            secret.clone()
        };
        let refused = |_| {
            ServiceError::Refused(format!(
                "the secret for the header `{name}` is no text of one line"
            ))
        };
        let mut value = HeaderValue::from_str(&value).map_err(refused)?;
        value.set_sensitive(true);
        let name = name
            .parse()
            .map_err(|_| ServiceError::Refused(format!("`{name}` is no header")))?;
        let _: Option<HeaderValue> = headers.insert::<reqwest::header::HeaderName>(name, value);
    }
    Ok(headers)
}

async fn send(
    client: &Client,
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Bytes>,
) -> Result<Response, reqwest::Error> {
    let method = match method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Delete => reqwest::Method::DELETE,
    };
    let request = client.request(method, url).headers(headers);
    match body {
        Some(body) => request.body(body),
        None => request,
    }
    .send()
    .await
}

async fn read(mut response: Response, longest: usize) -> Result<ServiceAnswer, reqwest::Error> {
    let status = response.status().as_u16();
    let retry_after = answer::retry_after(response.headers(), SystemTime::now());
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        let room = longest.saturating_sub(body.len());
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok(ServiceAnswer {
                status,
                retry_after,
                body: body.freeze(),
                cut: true,
            });
        }
    }
    Ok(ServiceAnswer {
        status,
        retry_after,
        body: body.freeze(),
        cut: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out_of_the_url_of_its_service() {
        let base = Url::parse("https://bank.example/api/v1/").unwrap();
        let below = |path: &str| url_below(&base, path).map(|url| url.to_string());
        assert_eq!(
            below("/charges/a%2Fb?x=%26").unwrap(),
            "https://bank.example/api/v1/charges/a%2Fb?x=%26"
        );
        for path in [
            "",
            "charges",
            "@evil.example/",
            "/../admin",
            "/%2e%2e/admin",
            "/a\\..\\b",
            "/a b",
            "/\tx",
        ] {
            assert!(below(path).is_err(), "{path}");
        }
    }
}
