//! The scratch that tasks have left on this machine. Must not touch that of a task that may go on.

use crate::cancel::CancelToken;
use crate::engine::Engine;
use futures::future::{BoxFuture, Either, select};
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

/// How often scratch is removed of tasks that came to rest elsewhere.
const EVERY: Duration = Duration::from_secs(300);

/// Removes scratch that earlier processes have left, and then goes on beside `work`, until that ends.
pub async fn beside<T>(
    engine: &Engine,
    shutdown: &CancelToken,
    work: impl Future<Output = T>,
) -> T {
    let sweeping: BoxFuture<'_, Infallible> = Box::pin(async {
        let left_over = run(engine, shutdown).await;
        if left_over > 0 {
            tracing::info!(tasks = left_over, "removed scratch of tasks that are over");
        }
        loop {
            engine.ports.clock.sleep(EVERY).await;
            run(engine, shutdown).await;
        }
    });
    match select(pin!(work), sweeping).await {
        Either::Left((ended, _)) => ended,
        Either::Right((never, _)) => match never {},
    }
}

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
