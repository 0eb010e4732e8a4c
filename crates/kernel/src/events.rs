//! Domain events: what a change tells other services, made from its audit entries. Written with the change, so that none
//! is forgotten and none is told of a change that rolled back.

use crate::engine::Engine;
use crate::transition::{AuditEntry, Transition};
use counterstep_contracts::{StatusChange, StepChange, TaskDecl, TaskEvent};

impl Engine {
    /// Adds a change's events to it, where this process is to publish any.
    pub(crate) fn add_events(&self, decl: &TaskDecl, transition: &mut Transition) {
        // Where the outbox rows are themselves the queue, nobody could subscribe to anything.
        if !self.settings.events || self.ports.queue.reads_the_outbox() {
            return;
        }
        transition.events = events_of(decl, transition);
    }
}

/// One event for each audit entry of a change of a task.
#[must_use]
pub fn events_of(decl: &TaskDecl, transition: &Transition) -> Vec<TaskEvent> {
    let Some(write) = &transition.task else { return Vec::new() };
    let row = &write.row;
    let event = |entry: &AuditEntry| TaskEvent {
        task: row.id,
        task_type: row.task_type.clone(),
        version: row.version,
        tenant: row.tenant.clone(),
        seq: entry.seq,
        event: entry.event.clone(),
        status: StatusChange { from: entry.from, to: entry.to },
        step: entry.step.map(|no| StepChange {
            no,
            name: decl.steps.iter().find(|step| step.no == no).map_or_else(String::new, |step| step.name.to_owned()),
            from: entry.step_from,
            to: entry.step_to,
        }),
        attempt: entry.attempt,
        epoch: entry.epoch,
        actor: entry.actor.clone(),
        traceparent: row.traceparent.clone(),
    };
    transition.audit.iter().map(event).collect()
}
