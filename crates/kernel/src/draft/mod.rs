//! A change in the making: events go in, the judge rules on each, and out comes one [`Transition`]
//! in which every event has its audit entry. The only place that builds transitions of tasks.

mod again;
mod attempts;
mod children;
mod claim;
mod client;
mod dropped;
mod forward;
mod operator;
mod place;
mod probe;
mod quarantine;
mod recovery;
mod redispatch;
mod sweep;
mod undo;
mod waits;

pub(crate) use again::{Again, KeptStep};
pub use client::{NewTask, Received, will_undo};
pub(crate) use dropped::DroppedResult;
pub(crate) use operator::BULK;
pub use operator::Decision;
pub use sweep::sweep;

use crate::audit;
use crate::change::intents;
use crate::change::transition::{
    AttemptWrite, Guard, IdempotencyWrite, LeaseChange, ReceiveWrite, TaskWrite, Time, Transition,
    Work,
};
use crate::host::lost_hosts::Loss;
use crate::plan;
use crate::ports::DocumentWrite;
use crate::record::{AuditEntry, DbTime, StepRow, TaskRecord};
use crate::saga::{self, Event, Illegal, State, StepEvent};
use crate::sql::Sql;
use counterstep_contracts::{
    Attempt, ChangeId, Epoch, Host, Rev, StepNo, TaskDecl, TaskStatus, WorkerMessage,
};
use serde_json::Value;
use std::collections::BTreeSet;

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
    before: Option<TaskRecord>,
    record: TaskRecord,
    exists: bool,
    base: (Epoch, Rev),
    actor: String,
    changed: BTreeSet<usize>,
    pub(crate) lease: LeaseChange,
    pub(crate) needs_expired_lease: bool,
    pub(crate) due: Time,
    pub(crate) deadline: Time,
    cancel_requested: Time,
    finished: Time,
    attempts: Vec<AttemptWrite>,
    keeps_condemned: bool,
    takes_receive: bool,
    audit: Vec<AuditEntry>,
    work: Vec<Work>,
    idempotency: Option<IdempotencyWrite>,
    document: Option<Box<DocumentWrite>>,
    leaves_unknown_place: bool,
    children: Vec<Transition>,
    children_seen: Vec<(StepNo, u32)>,
    submitted: Value,
    again: Option<Again>,
    sql: Vec<Sql>,
    earlier_losses: Vec<Loss>,
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
    /// Of a task as it was read.
    #[must_use]
    pub fn new(decl: &'static TaskDecl, record: TaskRecord, actor: impl Into<String>) -> Self {
        let base = (record.task.epoch, record.task.rev);
        Self::make(decl, record, actor.into(), true, base)
    }

    /// Of a task that is to be submitted.
    #[must_use]
    pub fn of_new(decl: &'static TaskDecl, record: TaskRecord, actor: impl Into<String>) -> Self {
        Self::make(decl, record, actor.into(), false, (Epoch(0), Rev(0)))
    }

    fn make(
        decl: &'static TaskDecl,
        record: TaskRecord,
        actor: String,
        exists: bool,
        base: (Epoch, Rev),
    ) -> Self {
        Self {
            decl,
            before: exists.then(|| record.clone()),
            record,
            exists,
            base,
            actor,
            changed: BTreeSet::new(),
            lease: LeaseChange::Keep,
            needs_expired_lease: false,
            due: Time::Keep,
            deadline: Time::Keep,
            cancel_requested: Time::Keep,
            finished: Time::Keep,
            attempts: Vec::new(),
            keeps_condemned: false,
            takes_receive: false,
            audit: Vec::new(),
            work: Vec::new(),
            idempotency: None,
            document: None,
            leaves_unknown_place: false,
            children: Vec::new(),
            children_seen: Vec::new(),
            submitted: Value::Null,
            again: None,
            sql: Vec::new(),
            earlier_losses: Vec::new(),
        }
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
        self.audit.is_empty() && self.attempts.is_empty() && self.changed.is_empty()
    }

    /// Puts an event before the judge and, where it is legal, writes it down.
    ///
    /// # Errors
    /// [`Illegal`]; the draft is as before then.
    pub fn apply(&mut self, event: impl Into<Event>, note: Note) -> Result<(), Illegal> {
        let event = event.into();
        let states = plan::states(self.decl, &self.record.steps);
        let status = self.exists.then_some(self.record.task.status);
        let state = State {
            status,
            cancel_requested: self.is_cancel_requested(),
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
        self.exists = true;
        if task.status != ruling.task || status.is_none() {
            task.status = ruling.task;
            if ruling.task.is_terminal() {
                self.finished = Time::In(std::time::Duration::ZERO);
            }
            if ruling.task.is_at_rest() {
                self.lease = LeaseChange::Release;
                self.due = Time::Clear;
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

    pub(crate) fn push_attempt(&mut self, attempt: AttemptWrite) {
        self.keeps_condemned |= intents::keeps_condemned(&self.record.marks, &attempt);
        intents::apply(&mut self.record.marks, &attempt, self.record.now);
        self.attempts.push(attempt);
    }

    /// Whether it would keep what a sweep has condemned. It must not be committed then.
    pub(crate) const fn keeps_condemned(&self) -> bool {
        self.keeps_condemned
    }

    pub(crate) fn set_idempotency(&mut self, write: IdempotencyWrite) {
        self.idempotency = Some(write);
    }

    /// A schedule submits the task; `details` go into the first audit entry.
    pub(crate) fn set_schedule(&mut self, write: DocumentWrite, details: Value) {
        self.document = Some(Box::new(write));
        self.submitted = details;
    }

    /// The losses of hosts before the one that the draft may count, to be named where the task is
    /// given up.
    pub fn set_earlier_losses(&mut self, losses: &[Loss]) {
        self.earlier_losses = losses.to_vec();
    }

    /// Writes to tables of the user's own in the same transaction.
    pub(crate) fn write_along(&mut self, sql: &[Sql]) {
        self.sql.extend_from_slice(sql);
    }

    /// Notes that a cancel was accepted now.
    pub(crate) fn mark_cancel_requested(&mut self) {
        self.cancel_requested = Time::In(std::time::Duration::ZERO);
        self.record.task.cancel_requested_at = Some(self.record.now);
    }

    /// Tells the hosts of `host` that the task is theirs to claim.
    pub(crate) fn dispatch_to(&mut self, host: Host) {
        let queue = self.decl.queue_of(host);
        let outputs = self.outputs_so_far();
        let task = &mut self.record.task;
        task.host = host;
        task.queue.clone_from(&queue.0);
        let message = WorkerMessage {
            task: task.id,
            tenant: Some(task.tenant.clone()),
            task_type: task.task_type.clone(),
            version: task.version,
            rev: self.base.1.next(),
            traceparent: task.traceparent.clone(),
            outputs,
        };
        self.work.push(Work { queue, message });
    }

    fn outputs_so_far(&self) -> serde_json::Map<String, Value> {
        /// Above this the message would be mostly convenience.
        const LIMIT: usize = 16 * 1024;
        let outputs: serde_json::Map<_, _> = self
            .record
            .steps
            .iter()
            .filter_map(|row| {
                row.output
                    .as_ref()
                    .map(|output| (row.name.clone(), output.clone()))
            })
            .collect();
        let size = serde_json::to_string(&outputs).map_or(usize::MAX, |text| text.len());
        if size <= LIMIT {
            outputs
        } else {
            serde_json::Map::new()
        }
    }

    /// The finished change and the guard for it.
    pub fn finish(mut self, change_id: ChangeId, by: As) -> (Guard, Transition) {
        let place = self.place_write();
        let (epoch, rev) = self.base;
        let guard = match by {
            As::Owner => Guard::Lease { epoch, rev },
            As::Anyone => Guard::Free { rev },
        };
        let task = &mut self.record.task;
        task.rev = rev.next();
        task.change_id = change_id;
        let leased = match self.lease {
            LeaseChange::Keep => task.lease_owner.is_some(),
            LeaseChange::Take { .. } => true,
            LeaseChange::Release => false,
        };
        // By the time at which the task was read, and so a little early.
        task.sweep_at = if leased {
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
        let write = TaskWrite {
            row: self.record.task.clone(),
            lease: self.lease,
            needs_expired_lease: self.needs_expired_lease,
            due: self.due,
            deadline: self.deadline,
            cancel_requested: self.cancel_requested,
            finished: self.finished,
        };
        let transition = Transition {
            task: Some(write),
            place,
            steps,
            attempts: self.attempts,
            receive: self.takes_receive.then_some(ReceiveWrite::Taken),
            audit: self.audit,
            work: self.work,
            idempotency: self.idempotency,
            document: self.document,
            children: self.children,
            children_seen: self.children_seen,
            sql: self.sql,
            ..Transition::new(change_id, self.record.task.id)
        };
        (
            guard,
            transition.with_journal(self.before.as_ref(), &self.actor),
        )
    }
}

/// The record as it stands after a transition of it was committed at `now`, without reading it
/// again.
#[must_use]
pub fn after_commit(before: &TaskRecord, transition: &Transition, now: DbTime) -> TaskRecord {
    let mut record = before.clone();
    record.now = now;
    if let Some(write) = &transition.task {
        let old = std::mem::replace(&mut record.task, write.row.clone());
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
            LeaseChange::Keep => (old.lease_owner, old.lease_expires_at),
            LeaseChange::Take { owner, ttl } => (Some(owner.clone()), Some(now.later(*ttl))),
            LeaseChange::Release => (None, None),
        };
    }
    for write in &transition.attempts {
        intents::apply(&mut record.marks, write, now);
    }
    for step in &transition.steps {
        if let Some(row) = record.steps.iter_mut().find(|row| row.no == step.no) {
            row.clone_from(step);
        }
    }
    record
}
