//! The end of rows in the worker registry, as a plan and its execution: processes write them, and
//! one that was killed leaves its own behind.

use counterstep_kernel::Engine;
use counterstep_kernel::ports::StoreError;
use futures::future::BoxFuture;
use std::time::Duration;

/// How long after its last refresh a process is still listed.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// Plans to forget the processes that were not seen for a day, whether or not they said that they
/// stop. Returns their ids.
///
/// # Errors
/// When the store does not answer.
pub fn plan_forget(engine: &Engine) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
    Box::pin(async move {
        let found = engine.ports.store.workers().await?;
        let now = found.now;
        let is_forgotten = |seen_at| now.after(seen_at) >= REMEMBERED;
        let forgotten = found
            .rows
            .into_iter()
            .filter(|seen| is_forgotten(seen.seen_at));
        Ok(forgotten.map(|seen| seen.row.id).collect())
    })
}

/// Forgets processes, where they have not been seen meanwhile. Returns how many.
///
/// # Errors
/// When the store does not answer.
pub fn forget(engine: &Engine, ids: Vec<String>) -> BoxFuture<'_, Result<u64, StoreError>> {
    Box::pin(async move {
        if ids.is_empty() {
            return Ok(0);
        }
        engine.ports.store.forget_workers(&ids, REMEMBERED).await
    })
}
