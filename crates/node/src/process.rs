//! A process from its settings to its end.

use crate::exit::Exit;
use crate::logging;
use crate::settings::Settings;
use counterstep_kernel::host::Spawn;
use counterstep_kernel::{CancelReason, CancelToken};
use futures::future::BoxFuture;
use std::sync::Arc;

/// Runs a process's work on a runtime of its own, with logging started.
///
/// # Errors
/// As the work says; also when no runtime can be started.
pub fn run(settings: &Settings, work: BoxFuture<'_, Result<(), Exit>>) -> Result<(), Exit> {
    logging::start(&settings.log, settings.log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Exit::failed(format_args!("no runtime could be started: {error}")))?;
    let result = runtime.block_on(work);
    // Blocking work of a dropped step may still be running; it holds no lease any more, so nobody waits for it.
    runtime.shutdown_background();
    result
}

/// A token that is cancelled by the first SIGINT or SIGTERM; the second one ends the process at once.
///
/// # Errors
/// When the signals cannot be listened to.
pub fn shutdown_on_signals() -> Result<CancelToken, Exit> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |error| Exit::failed(format_args!("signals cannot be listened to: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let token = CancelToken::new();
    let shutdown = token.clone();
    tokio::spawn(async move {
        for round in 0..2 {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if round == 0 {
                tracing::info!("shutting down: waiting for what is running; once more to stop at once");
                shutdown.cancel(CancelReason::Shutdown);
            }
        }
        std::process::exit(130);
    });
    Ok(token)
}

/// Starts futures on the runtime.
#[must_use]
pub fn spawner() -> Spawn {
    Arc::new(|future| {
        tokio::spawn(future);
    })
}
