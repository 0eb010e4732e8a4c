//! A change in the making: events go in, the judge rules on each, and out comes one [`Transition`]
//! in which every event has its audit entry. The only place that builds transitions of tasks. What
//! only the whole can do is here; five parts hold the rest.

mod again;
mod attempts;
mod children;
mod claim;
mod client;
mod dropped;
mod forward;
mod operator;
mod outgoing;
mod parts;
mod probe;
mod quarantine;
mod redispatch;
mod sweep;
mod take_back;
mod task;
mod undo;
mod waits;

pub(crate) use again::{Again, KeptStep};
pub use client::{NewTask, Received, will_undo};
pub(crate) use dropped::DroppedResult;
pub(crate) use operator::BULK;
pub use operator::Decision;
pub use sweep::sweep;

use parts::{DraftAttempts, DraftChildren, DraftOutgoing, DraftPlace, DraftTask};

use crate::audit;
use crate::change::intents;
use crate::change::transition::{Guard, LeaseChange, ReceiveWrite, TaskWrite, Time, Transition};
use crate::plan;
use crate::record::{AuditEntry, DbTime, StepRow, TaskRecord};
use crate::saga::{self, Event, Illegal, State, StepEvent};
use counterstep_contracts::{Attempt, ChangeId, Epoch, Rev, TaskDecl, TaskStatus};
use counterstep_steps::guard;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Under which guard a draft will be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum As {
    /// By the owner of the lease.
    Owner,
    /// By anyone else.
    Anyone,
}

/// A change in the making.
#[derive(Debug, Clone)]
pub struct Draft {
    decl: &'static TaskDecl,
    before: Option<Arc<TaskRecord>>,
    record: TaskRecord,
    actor: String,
    changed: BTreeSet<usize>,
    audit: Vec<AuditEntry>,
    again: Option<Again>,
    pub(crate) task: DraftTask,
    pub(crate) attempts: DraftAttempts,
    pub(crate) outgoing: DraftOutgoing,
    pub(crate) children: DraftChildren,
    place: DraftPlace,
}

/// What an event's audit entry says beyond the states.
#[derive(Debug, Clone, Default)]
pub struct Note {
    /// The attempt concerned.
    pub attempt: Option<Attempt>,
    /// More, as JSON.
    pub details: Value,
}

impl Note {
    /// Of an attempt.
    #[must_use]
    pub const fn attempt(attempt: Attempt) -> Self {
        Self {
            attempt: Some(attempt),
            details: Value::Null,
        }
    }

    /// With details.
    #[must_use]
    pub fn with(mut self, details: Value) -> Self {
        self.details = details;
        self
    }
}

impl Draft {
    /// A draft of changes to a task as it was read.
    #[must_use]
    pub fn new(
        decl: &'static TaskDecl,
        record: impl Into<Arc<TaskRecord>>,
        actor: impl Into<String>,
    ) -> Self {
        let before = record.into();
        let record = TaskRecord::clone(&before);
        Self::make(decl, Some(before), record, actor.into())
    }

    /// `before`: `None`: it is to be submitted.
    fn make(
        decl: &'static TaskDecl,
        before: Option<Arc<TaskRecord>>,
        record: TaskRecord,
        actor: String,
    ) -> Self {
        Self {
            decl,
            before,
            record,
            actor,
            changed: BTreeSet::new(),
            audit: Vec::new(),
            again: None,
            task: DraftTask::default(),
            attempts: DraftAttempts::default(),
            outgoing: DraftOutgoing::default(),
            children: DraftChildren::default(),
            place: DraftPlace::default(),
        }
    }

    /// Epoch and revision on which it is decided.
    fn base(&self) -> (Epoch, Rev) {
        let base = |before: &Arc<TaskRecord>| (before.task.epoch, before.task.rev);
        self.before.as_ref().map_or((Epoch(0), Rev(0)), base)
    }

    /// The declaration.
    #[must_use]
    pub const fn decl(&self) -> &'static TaskDecl {
        self.decl
    }

    /// The task as it stands after the events so far.
    #[must_use]
    pub const fn record(&self) -> &TaskRecord {
        &self.record
    }

    /// It is decided at this time of the database; `None`: at that of the record.
    pub(crate) fn set_now(&mut self, now: Option<DbTime>) {
        self.record.now = now.unwrap_or(self.record.now);
    }

    /// The step at a position, after the events so far.
    #[must_use]
    pub fn step(&self, at: usize) -> &StepRow {
        &self.record.steps[at]
    }

    /// The task's state after the events so far.
    #[must_use]
    pub const fn status(&self) -> TaskStatus {
        self.record.task.status
    }

    /// Whether a cancel was accepted.
    #[must_use]
    pub const fn is_cancel_requested(&self) -> bool {
        self.record.task.cancel_requested_at.is_some()
    }

    /// What has happened in it.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> &[AuditEntry] {
        &self.audit
    }

    /// Whether nothing has happened in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.audit.is_empty() && self.attempts.writes.is_empty() && self.changed.is_empty()
    }

    /// Puts an event before the judge and, where it is legal, writes it down.
    ///
    /// # Errors
    /// [`Illegal`]; the draft is as before then.
    pub fn apply(&mut self, event: impl Into<Event>, note: Note) -> Result<(), Illegal> {
        let event = event.into();
        let states = plan::states(self.decl, &self.record.steps);
        let exists = self.before.is_some() || !self.audit.is_empty();
        let status = exists.then_some(self.record.task.status);
        let state = State {
            status,
            cancel_requested: self.is_cancel_requested() && !guard!("accepted cancel", false),
            is_child: self.record.task.parent.is_some(),
            steps: &states,
        };
        let ruling = saga::judge(&state, event)?;

        let task = &mut self.record.task;
        task.audit_seq = task.audit_seq.next();
        let mut entry = AuditEntry {
            seq: task.audit_seq,
            event: event.name().to_owned(),
            from: status,
            to: ruling.task,
            step: None,
            step_from: None,
            step_to: None,
            attempt: note.attempt,
            epoch: task.epoch,
            actor: self.actor.clone(),
            details: note.details,
        };
        if task.status != ruling.task || status.is_none() {
            task.status = ruling.task;
            if ruling.task.is_terminal() {
                self.task.finished = Time::In(std::time::Duration::ZERO);
            }
            if ruling.task.is_at_rest() {
                self.task.rests();
                task.place_no = None;
            }
            if ruling.task != TaskStatus::Waiting {
                task.waiting = None;
            }
        }
        if let Some((at, to)) = ruling.step {
            let seq = self.record.task.audit_seq;
            let request = self.request_at_start(at);
            let row = self.step_mut(at);
            entry.step = Some(row.no);
            entry.step_from = Some(row.status);
            entry.step_to = Some(to);
            row.status = to;
            match event {
                Event::Step(_, StepEvent::Started) => {
                    row.started_seq.get_or_insert(seq);
                    (row.request, row.due_at) = (request, None);
                }
                // Also of one whose calls were never sent, which counts as not started: what a person
                // did in its place has its place in the order of undos.
                Event::Step(_, StepEvent::Supplied) => {
                    row.started_seq.get_or_insert(seq);
                }
                Event::Step(_, StepEvent::UndoStarted | StepEvent::UndoRedriven) => {
                    row.due_at = None;
                }
                Event::Step(_, StepEvent::Settled { .. } | StepEvent::ProbeRedriven) => {
                    (row.due_at, row.probe, row.error) = (None, None, None);
                }
                // From the beginning, with its own code.
                Event::Step(_, StepEvent::Redriven) => {
                    (row.due_at, row.in_fallback) = (None, false)
                }
                _ => {}
            }
        }
        self.audit.push(entry);
        Ok(())
    }

    /// The step at a position, for changing; it will be written.
    pub(crate) fn step_mut(&mut self, at: usize) -> &mut StepRow {
        self.changed.insert(at);
        &mut self.record.steps[at]
    }

    /// The task row, for changing everything but its state, sequence numbers and times.
    pub(crate) const fn task_mut(&mut self) -> &mut crate::record::TaskRow {
        &mut self.record.task
    }

    /// Adds to what the last audit entry says beyond the states.
    pub(crate) fn add_detail(&mut self, key: &str, value: Value) {
        let Some(entry) = self.audit.last_mut() else {
            return;
        };
        if !entry.details.is_object() {
            entry.details = Value::Object(serde_json::Map::new());
        }
        entry.details[key] = value;
    }

    /// Whether it would keep what a sweep has condemned. It must not be committed then.
    pub(crate) const fn keeps_condemned(&self) -> bool {
        self.attempts.keeps_condemned
    }

    /// The finished change, the guard for it, and the task as it will stand then, but for its times and its lease
    /// ([`after_commit`]).
    pub fn finish(mut self, change_id: ChangeId, by: As) -> (Guard, Transition, TaskRecord) {
        let (epoch, rev) = self.base();
        let before = self.before.as_ref().map(|before| &*before.task);
        let place = self.place.write(before, &self.record.task);
        let guard = match by {
            As::Owner => Guard::Lease { epoch, rev },
            As::Anyone => Guard::Free { rev },
        };
        let task = &mut self.record.task;
        task.rev = rev.next();
        task.change_id = change_id;
        // By the time at which the task was read, and so a little early.
        task.sweep_at = if self.task.is_leased(task) {
            None
        } else {
            intents::sweep_at(&self.record.marks)
        };
        let steps = if rev == Rev(0) {
            self.record.steps.clone()
        } else {
            self.changed
                .iter()
                .map(|&at| self.record.steps[at].clone())
                .collect()
        };
        let transition = Transition {
            task: Some(TaskWrite {
                row: self.record.task.clone(),
                lease: self.task.lease,
                needs_expired_lease: self.task.needs_expired_lease,
                writes_labels: self.task.writes_labels,
                due: self.task.due,
                deadline: self.task.deadline,
                cancel_requested: self.task.cancel_requested,
                finished: self.task.finished,
            }),
            place,
            steps,
            attempts: self.attempts.writes,
            receive: self.attempts.takes_receive.then_some(ReceiveWrite::Taken),
            audit: self.audit,
            work: self.outgoing.work,
            idempotency: self.outgoing.idempotency,
            document: self.outgoing.document,
            children: self.children.new,
            children_seen: self.children.seen,
            sql: self.outgoing.sql,
            ..Transition::new(change_id, self.record.task.id)
        };
        let transition = transition.with_journal(self.before.as_deref(), &self.actor);
        (guard, transition, self.record)
    }
}

/// The record as it stands after a transition of it was committed at `now`, without reading it again; `record`: what its
/// draft has left ([`Draft::finish`]), `before`: what it was decided on.
#[must_use]
pub fn after_commit(
    before: &TaskRecord,
    mut record: TaskRecord,
    transition: &Transition,
    now: DbTime,
) -> TaskRecord {
    record.now = now;
    if let Some(write) = &transition.task {
        let old = &before.task;
        let time = |change: Time, was: Option<DbTime>| match change {
            Time::Keep => was,
            Time::Clear => None,
            Time::In(after) => Some(now.later(after)),
        };
        let task = &mut record.task;
        task.created_at = old.created_at;
        task.updated_at = if transition.is_quiet() {
            old.updated_at
        } else {
            now
        };
        if let Some(row) = &transition.journal {
            task.audit_seal = Some(audit::seal(&row.link.0, now));
        }
        task.due_at = time(write.due, old.due_at);
        task.deadline_at = time(write.deadline, old.deadline_at);
        task.cancel_requested_at = old
            .cancel_requested_at
            .or(time(write.cancel_requested, None));
        task.finished_at = time(write.finished, old.finished_at);
        (task.lease_owner, task.lease_expires_at) = match &write.lease {
            LeaseChange::Keep => (old.lease_owner.clone(), old.lease_expires_at),
            LeaseChange::Take { owner, ttl } => (Some(owner.clone()), Some(now.later(*ttl))),
            LeaseChange::Release => (None, None),
        };
    }
    // Its times are the database's, not those of the draft.
    record.marks.clone_from(&before.marks);
    for write in &transition.attempts {
        intents::apply(&mut record.marks, write, now);
    }
    record
}
