//! Domain events: what a change tells other services, made from its audit entries. Written with the
//! change, so that none is forgotten and none is told of a change that rolled back.

use crate::change::transition::Transition;
use crate::record::AuditEntry;
use counterstep_contracts::{StatusChange, StepChange, TaskDecl, TaskEvent, TaskStatus};

/// Under which a task's undo having given up is told, whatever led there: who is to be alerted
/// subscribes to one subject.
pub const COMPENSATION_FAILED: &str = "compensation_failed";

/// Whether an entry parks its task with an undo that gave up.
pub(crate) fn is_alert(entry: &AuditEntry) -> bool {
    entry.to == TaskStatus::CompensationFailed && entry.from != Some(TaskStatus::CompensationFailed)
}

fn name(entry: &AuditEntry) -> &str {
    if is_alert(entry) {
        COMPENSATION_FAILED
    } else {
        &entry.event
    }
}

/// One event for each audit entry of a change of a task. It has the name of the entry, but for
/// [`COMPENSATION_FAILED`].
#[must_use]
pub fn events_of(decl: &TaskDecl, transition: &Transition) -> Vec<TaskEvent> {
    let Some(write) = &transition.task else {
        return Vec::new();
    };
    let row = &write.row;
    let event = |entry: &AuditEntry| TaskEvent {
        task: row.id,
        task_type: row.task_type.clone(),
        version: row.version,
        tenant: row.tenant.clone(),
        seq: entry.seq,
        event: name(entry).to_owned(),
        status: StatusChange {
            from: entry.from,
            to: entry.to,
        },
        step: entry.step.map(|no| StepChange {
            no,
            name: decl
                .steps
                .iter()
                .find(|step| step.no == no)
                .map_or_else(String::new, |step| step.name.to_owned()),
            from: entry.step_from,
            to: entry.step_to,
        }),
        attempt: entry.attempt,
        epoch: entry.epoch,
        actor: entry.actor.clone(),
        labels: row.labels.clone(),
        traceparent: row.traceparent.clone(),
    };
    transition.audit.iter().map(event).collect()
}
