//! The listening server: starts it, and stops it without cutting anybody off.

use crate::app_state::Api;
use crate::error_pages::error_pages;
use crate::origins;
use crate::routes::{self, Table};
use crate::settings::ApiSettings;
use actix_web::middleware::from_fn;
use actix_web::{App, HttpServer, web};
use counterstep_kernel::Engine;
use counterstep_node::metrics::{self, Probes, Source};
use counterstep_steps::{CancelReason, CancelToken};
use futures::future::BoxFuture;
use futures::future::{Either, join, select};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

/// How long the rest of a request is read and dropped after an answer that came before its end (413, say).
/// Closed at once, the connection would be reset and the client might never see the answer.
const LINGER: Duration = Duration::from_secs(5);

/// Serves the HTTP interface on `listener` until `shutdown` is cancelled. Requests under way may
/// then go on for `settings.drain`; long polls are answered at once.
///
/// Needs a Tokio runtime. Requests run on threads of the server's own; uploads run on the caller's
/// runtime, so that a client that goes away does not stop the clean-up after it.
///
/// # Errors
/// When the listener cannot be used.
pub fn serve(
    engine: Engine,
    settings: ApiSettings,
    listener: TcpListener,
    shutdown: CancelToken,
) -> BoxFuture<'static, std::io::Result<()>> {
    Box::pin(async move {
        let settings = settings.normal()?;
        let (drain, hurry) = (settings.drain, engine.settings.hurry.clone());
        let metrics_listener = settings.metrics_listener.as_ref();
        let metrics_listener = metrics_listener.map(|it| it.try_clone()).transpose()?;
        let (workers, head_timeout, keep_alive) = (
            settings.workers.max(1),
            settings.head_timeout,
            settings.keep_alive,
        );
        let table = web::Data::new(Table::of(settings.beside.operations));
        let api = web::Data::new(Api::new(engine, settings, shutdown.clone()));
        let state = api.clone();
        let server = HttpServer::new(move || {
            App::new()
                .app_data(state.clone())
                .configure(|config| match state.settings.path.as_str() {
                    "" => routes::configure(config, &state, &table),
                    path => {
                        let routes = |config: &mut _| routes::configure(config, &state, &table);
                        config.service(web::scope(path).configure(routes));
                    }
                })
                .wrap(from_fn(origins::guard))
                .wrap(from_fn(error_pages))
        })
        .workers(workers)
        // An answer's last packet must not wait for the client's word on the one before it.
        .tcp_nodelay(true)
        .keep_alive(keep_alive)
        .client_request_timeout(head_timeout)
        .client_disconnect_timeout(LINGER)
        .shutdown_timeout(drain.as_secs().max(1))
        .disable_signals()
        .listen(listener)?
        .run();
        let handle = server.handle();
        let stop = async move {
            shutdown.cancelled().await;
            let hurries = hurry.run_until_cancelled(handle.stop(true)).await.is_none();
            if hurries {
                handle.stop(false).await;
            }
            std::future::pending::<()>().await;
        };
        // Metrics are there until the last request has ended.
        let end = CancelToken::new();
        let metrics = async {
            match metrics_listener {
                Some(listener) => {
                    let probes = Probes::of(&api.engine, &api.shutdown);
                    metrics::serve(listener, source(api.clone()), probes, end.clone()).await
                }
                None => Ok(()),
            }
        };
        let served = async {
            let served = match select(server, Box::pin(stop)).await {
                Either::Left((served, _)) => served,
                Either::Right(((), server)) => server.await,
            };
            api.drained().await;
            end.cancel(CancelReason::Shutdown);
            served
        };
        let (served, metrics) = join(served, metrics).await;
        served.and(metrics)
    })
}

/// The page of metrics, for a server of its own.
fn source(api: web::Data<Api>) -> Source {
    Arc::new(move || {
        let api = api.clone().into_inner();
        Box::pin(async move { routes::metrics::page(&api).await })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serving_can_be_spawned_on_any_runtime() {
        fn spawnable<T: Send + 'static>(
            _: impl FnOnce(Engine, ApiSettings, TcpListener, CancelToken) -> T,
        ) {
        }
        spawnable(serve);
    }
}
