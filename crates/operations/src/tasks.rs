//! A task of a tenant, its cancel, and what a caller learns of one whose rows cannot be read. Must not reveal that another tenant
//! has a task.

use crate::{Cx, Refused, Run, no_such_task};
use counterstep_contracts::http::CancelAnswer;
use counterstep_contracts::operation::tasks::CancelTask;
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::ports::{RevisionsOf, StoreError};
use counterstep_kernel::record::{TaskRecord, load};
use counterstep_kernel::{Engine, client};

impl Run for CancelTask {
    async fn run(cx: Cx, id: TaskId, (): ()) -> Result<CancelAnswer, Refused> {
        load(&cx.engine, &cx.caller.tenant, id).await?;
        let actor = cx.actor::<Self>();
        Ok(client::cancel(&cx.engine, id, &actor).await?.answer)
    }
}

/// A task of this tenant.
///
/// # Errors
/// The same refusal for a task of no one and of another tenant.
pub async fn load(engine: &Engine, tenant: &Tenant, id: TaskId) -> Result<TaskRecord, Refused> {
    let record = match load::read(engine, id).await {
        Ok(record) => record,
        Err(error) => return Err(unreadable(engine, tenant, id, error).await),
    };
    record
        .filter(|record| record.task.tenant == *tenant)
        .ok_or_else(no_such_task)
}

/// The answer to a caller of this tenant instead of a task that was not read for this reason.
pub async fn unreadable(
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
pub async fn is_of(engine: &Engine, tenant: &Tenant, task: TaskId) -> Result<(), Refused> {
    let of = RevisionsOf::TaskOf(tenant.clone(), task);
    match engine.ports.store.revisions(&of).await {
        Ok(found) if found.tasks.is_empty() => Err(no_such_task()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
