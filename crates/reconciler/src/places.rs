//! Tasks that sleep for a place though there is one: the process that gave it back was lost before it could wake
//! them, or a person allows more. Plans and wakes; must not change a task.

use counterstep_contracts::TaskId;
use counterstep_kernel::ports::StoreError;
use counterstep_kernel::{Engine, admission::places, children};
use counterstep_steps::cancel::CancelToken;

/// At most about `limit` of them.
///
/// # Errors
/// When the store does not answer.
pub async fn plan(engine: &Engine, limit: u32) -> Result<Vec<TaskId>, StoreError> {
    places::not_woken(engine, limit).await
}

/// Wakes them; gives how many slept.
///
/// # Errors
/// When the store does not answer.
pub async fn run(
    engine: &Engine,
    tasks: Vec<TaskId>,
    shutdown: &CancelToken,
) -> Result<usize, StoreError> {
    let mut woken = 0;
    for task in tasks {
        if shutdown.is_cancelled() {
            break;
        }
        if children::wake(engine, task).await? {
            tracing::info!(%task, "a task was woken: there is a place for it");
            woken += 1;
        }
    }
    Ok(woken)
}
