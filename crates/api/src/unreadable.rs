//! What a caller learns of a task whose rows cannot be read: why, if it is a task of its tenant. Must
//! not reveal that another tenant has a task.

use crate::problem::{Refused, no_such_task};
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::ports::{RevisionsOf, StoreError};

/// The answer to a caller of this tenant instead of a task that was not read for this reason.
pub(crate) async fn unreadable(
    engine: &Engine,
    tenant: &Tenant,
    task: TaskId,
    error: StoreError,
) -> Refused {
    if !matches!(error, StoreError::Corrupt(_) | StoreError::Unsupported(_)) {
        return error.into();
    }
    match is_of(engine, tenant, task).await {
        Ok(()) => error.into(),
        Err(refused) => refused,
    }
}

/// Whether it is a task of the tenant, also where its rows cannot be read.
pub(crate) async fn is_of(engine: &Engine, tenant: &Tenant, task: TaskId) -> Result<(), Refused> {
    let of = RevisionsOf::TaskOf(tenant.clone(), task);
    match engine.ports.store.revisions(&of).await {
        Ok(found) if found.tasks.is_empty() => Err(no_such_task()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
