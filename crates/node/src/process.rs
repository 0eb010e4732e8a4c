//! A process from its settings to its end.

use crate::exit::Exit;
use crate::logging;
use crate::settings::Settings;
use counterstep_adapters::embedded::{self, EmbeddedOptions, EmbeddedPaths, OpenError};
use counterstep_kernel::error::chain;
use counterstep_kernel::host::Spawn;
use counterstep_kernel::{CancelReason, CancelToken, Engine, Registry};
use futures::future::BoxFuture;
use std::sync::Arc;

/// Opens the adapters that the settings name.
///
/// # Errors
/// [`Exit`], saying which part cannot be used.
pub fn open<'a>(settings: &'a Settings, registry: Arc<Registry>, role: &'a str) -> BoxFuture<'a, Result<Engine, Exit>> {
    Box::pin(async move {
        for folder in [settings.database.parent(), Some(settings.objects.as_path()), Some(settings.scratch.as_path())] {
            let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) else { continue };
            std::fs::create_dir_all(folder).map_err(|error| {
                Exit::config(format_args!("the folder `{}` cannot be made: {error}", folder.display()))
            })?;
        }
        let paths = EmbeddedPaths {
            database: settings.database.clone(),
            objects: settings.objects.clone(),
            scratch: settings.scratch.clone(),
        };
        let ports = embedded::open(paths, EmbeddedOptions::default()).await.map_err(|error| match &error {
            OpenError::Database(_) | OpenError::Folder { .. } => Exit::config(chain(&error)),
        })?;
        Ok(Engine::new(ports, registry, settings.engine.clone(), role))
    })
}

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
