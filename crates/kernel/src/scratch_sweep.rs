//! The scratch that tasks have left on this machine. Must not touch that of a task that may go on.

use crate::cancel::CancelToken;
use crate::engine::Engine;
use futures::future::BoxFuture;

/// Removes the scratch of tasks that are at rest, or were never there, until `shutdown`. Returns of
/// how many. Scratch that cannot be listed or removed, and that of a task that cannot be read,
/// stays.
pub fn run<'a>(engine: &'a Engine, shutdown: &'a CancelToken) -> BoxFuture<'a, u64> {
    Box::pin(async move {
        let mut removed = 0;
        let (scratch, store) = (&engine.ports.scratch, &engine.ports.store);
        let tasks = scratch.tasks().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the scratch folder could not be listed");
            Vec::new()
        });
        for task in tasks {
            if shutdown.is_cancelled() {
                break;
            }
            let over = match store.load(task).await {
                Ok(Some(record)) => record.task.status.is_at_rest(),
                Ok(None) => true,
                Err(_) => false,
            };
            if over && scratch.remove(task).await.is_ok() {
                removed += 1;
            }
        }
        removed
    })
}
