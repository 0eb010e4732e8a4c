//! Lists of tasks: those that a task has submitted. Must not show one of another tenant.

use crate::filters::{and_one, page};
use crate::{Cx, Refused, Run, cursor, invalid, load, task_view};
use counterstep_contracts::http::{ChildSummary, Page};
use counterstep_contracts::operation::task_lists::{ChildrenQuery, ListChildren};
use counterstep_contracts::{StepNo, TaskId};
use counterstep_kernel::ports::{ChildLine, ChildQuery};
use counterstep_kernel::record::TaskRecord;

impl Run for ListChildren {
    async fn run(cx: Cx, id: TaskId, asked: ChildrenQuery) -> Result<Page<ChildSummary>, Refused> {
        let record = load(&cx.engine, &cx.caller.tenant, id).await?;
        let step = asked.step.map(|name| step_of(&record, &name));
        let mut query = ChildQuery {
            parent: id,
            step: step.transpose()?,
            statuses: asked.status,
            after: None,
            limit: and_one(asked.limit),
        };
        let after = asked.cursor.map(|it| cursor::read_child(&it.0, &query));
        query.after = after.transpose()?;
        let lines = cx.engine.ports.store.children(&query).await?;
        let next = |last: &ChildLine| cursor::after_child((last.step, last.no), &query);
        let item = |line| task_view::child(&record, line);
        Ok(page(lines, asked.limit, next, item))
    }
}

fn step_of(record: &TaskRecord, name: &str) -> Result<StepNo, Refused> {
    let step = record.steps.iter().find(|step| step.name == name);
    step.map(|step| step.no).ok_or_else(|| {
        let known: Vec<&str> = record.steps.iter().map(|step| &*step.name).collect();
        invalid(format!("`step` is one of {}", known.join(", "))).at("step")
    })
}
