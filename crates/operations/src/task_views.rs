//! A task as a person looks at it: its audit, what an undo would do, why it does not go on, and a dead letter. Must not change a
//! task.

use crate::tasks::is_of;
use crate::{Cx, Refused, Run, load, no_such_task, task_bodies, unknown_type};
use counterstep_contracts::dead_letter::DeadLetterView;
use counterstep_contracts::http::{AuditTrail, TaskView};
use counterstep_contracts::operation::past::{GetTaskAt, TaskAtQuery};
use counterstep_contracts::operation::task_views::{
    ExplainTask, GetAudit, GetDeadLetter, GetUndoPlan,
};
use counterstep_contracts::operator::{UndoPlan, Why};
use counterstep_contracts::{AuditSeq, ProblemCode, TaskId};
use counterstep_kernel::dead_letters::group_of;
use counterstep_kernel::journal::task_at;
use counterstep_kernel::operator;
use counterstep_kernel::record::load as rows;
use std::collections::BTreeMap;

impl Run for GetAudit {
    async fn run(cx: Cx, id: TaskId, (): ()) -> Result<AuditTrail, Refused> {
        let record = load(&cx.engine, &cx.caller.tenant, id).await?;
        let history = cx.engine.ports.store.history(id).await?;
        Ok(task_bodies::trail(&record, history))
    }
}

impl Run for GetTaskAt {
    async fn run(cx: Cx, id: TaskId, asked: TaskAtQuery) -> Result<TaskView, Refused> {
        is_of(&cx.engine, &cx.caller.tenant, id).await?;
        let found = task_at(&cx.engine.ports.store, id, asked.seq.map(AuditSeq)).await?;
        let record = found.ok_or_else(|| {
            let detail = format!(
                "`seq` is the number of an entry, from 1: see /api/tasks/{id}/audit for those that there are"
            );
            Refused::new(ProblemCode::NoSuchEntry, detail).at("seq")
        })?;
        Ok(task_bodies::task(record, BTreeMap::new(), &[], Vec::new()))
    }
}

impl Run for GetUndoPlan {
    async fn run(cx: Cx, id: TaskId, (): ()) -> Result<UndoPlan, Refused> {
        let record = load(&cx.engine, &cx.caller.tenant, id).await?;
        let task_type = cx.engine.registry.of(&*record.task);
        let task_type = task_type.ok_or_else(unknown_type)?;
        Ok(operator::undo_plan(&task_type, &record))
    }
}

impl Run for ExplainTask {
    async fn run(cx: Cx, id: TaskId, (): ()) -> Result<Why, Refused> {
        let record = match rows::read(&cx.engine, id).await {
            Ok(record) => record,
            Err(error) => {
                is_of(&cx.engine, &cx.caller.tenant, id).await?;
                return Ok(operator::why_unreadable(&cx.engine, id, error).await?);
            }
        };
        let record = record
            .filter(|record| record.task.tenant == cx.caller.tenant)
            .ok_or_else(no_such_task)?;
        let around = operator::surroundings(&cx.engine, &record).await;
        Ok(operator::why_among(&cx.engine.registry, &record, &around))
    }
}

impl Run for GetDeadLetter {
    async fn run(cx: Cx, id: TaskId, (): ()) -> Result<DeadLetterView, Refused> {
        let record = load(&cx.engine, &cx.caller.tenant, id).await?;
        if !record.task.status.is_parked() {
            let detail = format!(
                "the task is {}: /api/tasks/{id} shows it, and its /audit the attempts",
                record.task.status
            );
            return Err(Refused::new(ProblemCode::NotParked, detail));
        }
        let history = cx.engine.ports.store.history(id).await?;
        let group = group_of(&record.task.task_type, record.task.failure.as_ref());
        Ok(task_bodies::parked(record, group, history))
    }
}
