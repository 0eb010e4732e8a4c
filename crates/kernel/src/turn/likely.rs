//! Which steps are likely to start with a task's next decision: what they need is asked for ahead of it.

use crate::plan::{self, ForwardPlan};
use crate::record::{DbTime, TaskRecord};
use crate::task::{Inputs, Registry, TaskType, guarded};
use counterstep_contracts::{StepStatus, TaskStatus};
use serde_json::Value;

/// A step that is under way in the rows and has just succeeded, and its output.
pub(super) type Done<'a> = Option<(usize, &'a Value)>;

/// The steps that would start now: none of a task that is to be undone, or ran into its deadline.
pub(crate) fn likely_next(
    registry: &Registry,
    task_type: &TaskType,
    record: &TaskRecord,
) -> Vec<usize> {
    let goes_forward = record.task.status != TaskStatus::Compensating
        && record.task.cancel_requested_at.is_none()
        && !record.is_past_deadline();
    if !goes_forward {
        return Vec::new();
    }
    next_after(registry, task_type, record, record.now, None)
}

/// The steps that would start after what is `done`, beyond those that their conditions skip.
pub(super) fn next_after(
    registry: &Registry,
    task_type: &TaskType,
    record: &TaskRecord,
    now: DbTime,
    done: Done<'_>,
) -> Vec<usize> {
    let mut steps = record.steps.clone();
    if let Some((at, _)) = done {
        steps[at].status = StepStatus::Completed;
    }
    let inputs = || {
        let mut outputs = record.outputs();
        outputs.extend(done.map(|(at, output)| (record.steps[at].name.clone(), output.clone())));
        Inputs::new(record.task.request.clone(), outputs).with_states(registry.states().clone())
    };
    loop {
        let ForwardPlan::Start(stage) = plan::forward(task_type.decl, &steps, now) else {
            return Vec::new();
        };
        // One that cannot be answered is asked again by the decision, which then says so.
        let is_skipped = |&at: &usize| {
            let when = task_type.steps[at].when?;
            let asked = !plan::has_decided(&steps[at]);
            let holds = asked.then(|| guarded("the condition", || when(&inputs())))?;
            (holds == Ok(false)).then_some(at)
        };
        let skipped: Vec<usize> = stage.iter().filter_map(is_skipped).collect();
        if skipped.is_empty() {
            return stage;
        }
        for at in skipped {
            steps[at].status = StepStatus::Skipped;
        }
    }
}
