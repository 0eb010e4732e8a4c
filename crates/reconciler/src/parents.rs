//! Tasks that sleep although a task that they have submitted has ended: the process that ended it
//! was lost before it could wake them. Plans and wakes; must not change a task.

use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{Find, StoreError};
use counterstep_kernel::{Engine, children};
use counterstep_steps::cancel::CancelToken;

/// At most `limit` tasks that were not woken; those that have changed least lately come first.
///
/// # Errors
/// When the store does not answer.
pub async fn plan(engine: &Engine, limit: u32) -> Result<Vec<TaskId>, StoreError> {
    let asleep = Find::Parents(engine.registry.known());
    let mut found = Vec::new();
    for task in engine.ports.store.find(&asleep, limit).await? {
        match children::was_not_woken(engine, task.task).await {
            Ok(true) => found.push(task.task),
            Ok(false) => {}
            // A damaged one is no trouble of the others: its host parks it.
            Err(error) if !error.may_pass() => {
                tracing::warn!(task = %task.task, %error, "a sleeping task cannot be read");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Wakes them; gives how many.
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
            tracing::info!(%task, "a task was woken: one that it has submitted had ended");
            woken += 1;
        }
    }
    Ok(woken)
}
