//! A task of a tenant: its cancel, what was handed in and put out, whether its audit is as it was written, and what a caller
//! learns of one whose rows cannot be read. Must not reveal that another tenant has a task.

use crate::{Cx, Refused, Run, no_such_task};
use counterstep_contracts::http::{CancelAnswer, ChainView, Payloads, SignalAnswer, StepOutput};
use counterstep_contracts::operation::tasks::{
    CancelTask, CheckAudit, GetPayloads, SendSignal, SignalOfTask,
};
use counterstep_contracts::{TaskId, Tenant};
use counterstep_kernel::audit::Walk;
use counterstep_kernel::journal::JournalWalk;
use counterstep_kernel::ports::{RevisionsOf, StoreError};
use counterstep_kernel::record::{StepRow, TaskRecord, load};
use counterstep_kernel::{Engine, client};
use counterstep_steps::digest::hex;
use serde_json::Value;

impl Run for CancelTask {
    async fn run(cx: Cx, id: TaskId, (): ()) -> Result<CancelAnswer, Refused> {
        load(&cx.engine, &cx.caller.tenant, id).await?;
        let actor = cx.actor::<Self>();
        Ok(client::cancel(&cx.engine, id, &actor).await?.answer)
    }
}

impl Run for SendSignal {
    async fn run(cx: Cx, to: SignalOfTask, body: Value) -> Result<SignalAnswer, Refused> {
        load(&cx.engine, &cx.caller.tenant, to.task).await?;
        let actor = cx.actor::<Self>();
        Ok(client::signal(&cx.engine, to.task, &to.name, body, &actor).await?)
    }
}

impl Run for GetPayloads {
    async fn run(cx: Cx, id: TaskId, (): ()) -> Result<Payloads, Refused> {
        let record = load(&cx.engine, &cx.caller.tenant, id).await?;
        let output = |step: StepRow| {
            let output = step.output?;
            let step = step.name;
            Some(StepOutput { step, output })
        };
        Ok(Payloads {
            task_id: record.task.id,
            request: record.task.request,
            earlier_requests: record.task.earlier_requests,
            outputs: record.steps.into_iter().filter_map(output).collect(),
        })
    }
}

impl Run for CheckAudit {
    async fn run(cx: Cx, id: TaskId, (): ()) -> Result<ChainView, Refused> {
        load(&cx.engine, &cx.caller.tenant, id).await?;
        let mut rows = JournalWalk::of(&cx.engine.ports.store, Some(id.to_string()));
        let (mut walk, mut head) = (Walk::default(), None);
        while let Some(row) = rows.next().await? {
            walk.step(&row);
            head = Some(hex(&row.seal));
        }
        Ok(ChainView {
            task_id: id,
            whole: walk.is_whole(),
            changes: walk.rows(),
            erased: walk.erased(),
            head: head.unwrap_or_default(),
        })
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
    if error.may_pass() {
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
