//! `GET /metrics` and the probes on an address of its own. Must not know what a page shows.

use super::breakers::ProcessPage;
use super::format::Format;
use super::probes::{self, Probes};
use crate::exit::Exit;
use crate::settings::Settings;
use actix_web::http::header::{ACCEPT, CONTENT_TYPE};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use counterstep_kernel::Engine;
use counterstep_steps::{CancelReason, CancelToken};
use futures::future::{BoxFuture, Either, join, select};
use prometheus_client::encoding::text::encode_eof;
use std::future::Future;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of the head of a request: a scraper sends one short request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes a whole page in the text format of OpenMetrics.
pub type Source = Arc<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>;

/// Starts to listen, where the settings name an address.
///
/// # Errors
/// When it is taken.
pub fn bind(settings: &Settings) -> Result<Option<TcpListener>, Exit> {
    let Some(address) = settings.metrics_listen else {
        return Ok(None);
    };
    match TcpListener::bind(address) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) => Err(Exit::config(format_args!(
            "setting `metrics_listen`: {address} cannot be listened on: {error}"
        ))),
    }
}

/// Serves the page, and the probes, until `end` is cancelled. Needs a Tokio runtime, and answers from
/// a thread of its own.
///
/// # Errors
/// When the listener cannot be used.
pub fn serve(
    listener: TcpListener,
    source: Source,
    probes: Probes,
    end: CancelToken,
) -> BoxFuture<'static, std::io::Result<()>> {
    Box::pin(async move {
        let address = listener.local_addr()?;
        let server = HttpServer::new(move || {
            App::new()
                .app_data(web::Data::new(source.clone()))
                .app_data(web::Data::new(probes.clone()))
                .configure(probes::configure)
                .route("/metrics", web::get().to(page))
                .route("/metrics", web::head().to(page))
        })
        .workers(1)
        .client_request_timeout(HEAD_TIMEOUT)
        .shutdown_timeout(1)
        .disable_signals()
        .listen(listener)?
        .run();
        tracing::info!(%address, "serving metrics");
        let handle = server.handle();
        let stop = async move {
            end.cancelled().await;
            handle.stop(true).await;
            std::future::pending::<()>().await;
        };
        match select(server, Box::pin(stop)).await {
            Either::Left((served, _)) => served,
            Either::Right(((), server)) => server.await,
        }
    })
}

async fn page(source: web::Data<Source>, request: HttpRequest) -> HttpResponse {
    let accept = request.headers().get(ACCEPT);
    let format = Format::wanted(accept.and_then(|value| value.to_str().ok()));
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, format.content_type()))
        .body(format.of(source.as_ref()().await))
}

/// Does `work`, which ends by `shutdown`, and serves the process's own figures and the probes beside
/// it, where there is a listener.
pub async fn beside<T>(
    listener: Option<TcpListener>,
    engine: &Engine,
    shutdown: &CancelToken,
    work: impl Future<Output = T>,
) -> T {
    let Some(listener) = listener else {
        return work.await;
    };
    let process = Arc::new(ProcessPage::of(engine));
    let source: Source = Arc::new(move || {
        let process = process.clone();
        Box::pin(async move {
            let mut page = String::new();
            process.write(&mut page).await;
            // A text takes whatever is written to it.
            let _ = encode_eof(&mut page);
            page
        })
    });
    let end = CancelToken::new();
    let probes = Probes::of(engine, shutdown);
    let served = serve(listener, source, probes, end.clone());
    let work = async {
        let done = work.await;
        end.cancel(CancelReason::Shutdown);
        done
    };
    let (done, served) = join(work, served).await;
    if let Err(error) = served {
        tracing::error!(%error, "metrics are no longer served");
    }
    done
}
