//! What a caller learns of a task whose rows cannot be read: why, if it is a task of the caller's tenant. Must
//! not reveal that another tenant has a task.

use crate::caller::Caller;
use crate::problem::{Refused, no_such_task};
use counterstep_contracts::TaskId;
use counterstep_kernel::Engine;
use counterstep_kernel::ports::{RevisionsOf, StoreError};

/// The answer to a caller instead of a task that was not read for this reason.
pub(crate) async fn unreadable(
    engine: &Engine,
    caller: &Caller,
    task: TaskId,
    error: StoreError,
) -> Refused {
    if !matches!(error, StoreError::Corrupt(_) | StoreError::Newer(_)) {
        return error.into();
    }
    let of = RevisionsOf::TaskOf(caller.tenant.clone(), task);
    match engine.ports.store.revisions(&of).await {
        Ok(found) if found.tasks.is_empty() => no_such_task(),
        Ok(_) => error.into(),
        Err(error) => error.into(),
    }
}
