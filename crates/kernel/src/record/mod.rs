//! The rows of a task as the engine reads them. Times are the database's: a row's time is only ever
//! compared with the `now` that was read in the same query.

mod failure;
pub mod load;

pub use failure::{Failure, StepFailure};
pub(crate) use failure::{IN_DOUBT, LOST, UNREADABLE};

use crate::audit::EntryHash;
use crate::task::{TaskFacts, TypeRef, trace_id};
use counterstep_contracts::{
    Attempt, AuditSeq, ChangeId, Direction, Epoch, Host, Labels, Outcome, ParentRef, Rev, Settled,
    StepNo, StepStatus, TaskId, TaskStatus, Tenant, WaitReason,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use counterstep_steps::times::DbTime;

/// What an undo of the whole task ends in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoGoal {
    /// A step gave up, a deadline passed, or the task was lost too often.
    Failed,
    /// A client asked for it.
    Cancelled,
}

impl UndoGoal {
    /// The terminal state.
    #[must_use]
    pub const fn status(self) -> TaskStatus {
        match self {
            Self::Failed => TaskStatus::Failed,
            Self::Cancelled => TaskStatus::Cancelled,
        }
    }
}

/// The row of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRow {
    /// Primary key.
    pub id: TaskId,
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// Declared name of its type.
    pub task_type: String,
    /// Version of its type when it was submitted.
    pub version: u32,
    /// Digest of the declaration when it was submitted.
    pub definition_hash: String,
    /// State of the task.
    pub status: TaskStatus,
    /// What it waits for; set exactly while `status` is Waiting.
    pub waiting: Option<WaitReason>,
    /// Which host is to claim it next.
    pub host: Host,
    /// The queue on which that host is told.
    pub queue: String,
    /// Changes so far.
    pub rev: Rev,
    /// Fence number.
    pub epoch: Epoch,
    /// Owner of the lease; `None`: the task is not leased.
    pub lease_owner: Option<String>,
    /// Until when; set exactly while there is an owner.
    pub lease_expires_at: Option<DbTime>,
    /// When a waiting task, or a compensating one between two undo attempts, goes on. Of one that
    /// was offered and that no host claimed: when it was offered again for the first time.
    pub due_at: Option<DbTime>,
    /// After this no forward step starts.
    pub deadline_at: Option<DbTime>,
    /// When a cancel was accepted.
    pub cancel_requested_at: Option<DbTime>,
    /// What compensating ends in; set from the moment that it starts.
    pub goal: Option<UndoGoal>,
    /// Times a host was lost since the task last made progress.
    pub recovery_attempts: u32,
    /// Sequence number of the last audit entry.
    pub audit_seq: AuditSeq,
    /// Hash of the last row of its journal; `None` before the first.
    pub audit_seal: Option<EntryHash>,
    /// The checked request.
    pub request: Value,
    /// Requests that it had before an operator changed them, the first one first.
    pub earlier_requests: Vec<Value>,
    /// The client's `Idempotency-Key`, where it came with one.
    pub client_key: Option<String>,
    /// The response, once completed.
    pub response: Option<Value>,
    /// Why it did not complete.
    pub failure: Option<Failure>,
    /// Ended with effects that were not undone.
    pub residue: bool,
    /// How a person has settled it, once one has.
    pub settled: Option<Settled>,
    /// W3C trace context of the submission.
    pub traceparent: Option<String>,
    /// What it is found by; they never change.
    pub labels: Labels,
    /// The task that has submitted it, where one has; it never changes.
    pub parent: Option<ParentRef>,
    /// Where its client is told when it comes to rest; it never changes.
    pub webhook: Option<String>,
    /// The key by which it is counted with others, where its type counts tasks; it never changes.
    pub place_key: Option<String>,
    /// The number of the place that it holds among those of its key; `None`: it holds none.
    pub place_no: Option<u32>,
    /// When it was submitted.
    pub created_at: DbTime,
    /// Last change in which something happened to it: no heartbeat, and no sweep of its attempts.
    pub updated_at: DbTime,
    /// Came to a terminal state.
    pub finished_at: Option<DbTime>,
    /// When a sweep is to look at what its attempts have stored; `None`: there is nothing for it,
    /// or the task is leased, and its host or its recovery comes first.
    pub sweep_at: Option<DbTime>,
    /// The last change. An unknown commit is settled by comparing it.
    pub change_id: ChangeId,
}

impl<'a> From<&'a TaskRow> for TypeRef<'a> {
    fn from(row: &'a TaskRow) -> Self {
        Self {
            name: &row.task_type,
            version: row.version,
            definition: &row.definition_hash,
        }
    }
}

impl TaskRow {
    /// What its steps see of it beside their inputs.
    #[must_use]
    pub(crate) fn facts(&self) -> TaskFacts {
        TaskFacts {
            task_type: self.task_type.clone(),
            submitted_at: Some(self.created_at),
            deadline_at: self.deadline_at,
            client_key: self.client_key.clone(),
            labels: self.labels.clone(),
            traceparent: self.traceparent.clone(),
        }
    }

    /// The trace id of its submission, 32 hexadecimal digits, where it came with one.
    #[must_use]
    pub fn trace_id(&self) -> Option<&str> {
        trace_id(self.traceparent.as_deref()?)
    }
}

/// The row of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRow {
    /// Number of the step.
    pub no: StepNo,
    /// Name of the step.
    pub name: String,
    /// State of the step.
    pub status: StepStatus,
    /// Its committed output.
    pub output: Option<Value>,
    /// Last forward attempt; 0 before the first.
    pub attempts: Attempt,
    /// Forward retries used up. Recoveries and rebuilds are attempts but no retries.
    pub retries_used: u32,
    /// Last undo attempt; 0 before the first.
    pub undo_attempts: Attempt,
    /// Undo retries used up.
    pub undo_retries_used: u32,
    /// Whether its last attempt, in the direction of its status, has started and not ended. Stored
    /// like any column (`attempt_open`), so that a claim knows which attempts an older epoch left
    /// open.
    pub attempt_open: bool,
    /// The audit sequence at its first start: undo goes in the reverse of it.
    pub started_seq: Option<AuditSeq>,
    /// Its last error.
    pub error: Option<StepFailure>,
    /// While it waits: when its next attempt, its timer, or the deadline of its signal is due.
    /// `None`: now.
    pub due_at: Option<DbTime>,
    /// The signal that came for it, whether or not it waits for it yet.
    pub signal: Option<SignalRow>,
    /// It gave up, and its fallback runs in its place from then on.
    pub in_fallback: bool,
    /// The task that this one runs again had completed it. What it did belongs to that task, and no undo
    /// touches it.
    pub kept: bool,
    /// Which of the task's requests it was given when it last started: 0 is the first.
    pub request: u32,
    /// It has completed under that request, and its scratch was lost since: whatever makes it again is
    /// given the same one.
    pub keeps_request: bool,
    /// Tasks that it has submitted, where it is a step that does.
    pub children: Option<ChildrenRow>,
    /// Its last attempt is in doubt, and its probe has failed to find out how far it came.
    pub probe: Option<ProbeRow>,
}

/// What has become of the probe of an attempt in doubt, while it has found out nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeRow {
    /// Retries used up.
    pub retries_used: u32,
    /// It has no retry left.
    pub gave_up: bool,
}

/// The tasks that a step has submitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildrenRow {
    /// Number of tasks that were submitted, with those that others have replaced.
    pub started: u32,
    /// Number of them that had ended when the task was put to sleep for the others.
    pub seen: u32,
    /// Consecutive times they could not be read, or did not all get the stop request.
    #[serde(default)]
    pub missed: u32,
    /// How many times an operator had the task retried while the step had not completed. A task of an earlier
    /// generation that ends without completing is replaced, as far as the step needs it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A signal that was accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignalRow {
    /// The checked body.
    pub body: Value,
    /// Who sent it.
    pub actor: String,
    /// When it was accepted.
    pub at: DbTime,
}

impl StepRow {
    /// A step that has not started.
    #[must_use]
    pub fn pending(no: StepNo, name: &str) -> Self {
        Self {
            no,
            name: name.to_owned(),
            status: StepStatus::Pending,
            output: None,
            attempts: Attempt(0),
            retries_used: 0,
            undo_attempts: Attempt(0),
            undo_retries_used: 0,
            attempt_open: false,
            started_seq: None,
            error: None,
            due_at: None,
            signal: None,
            in_fallback: false,
            kept: false,
            request: 0,
            keeps_request: false,
            children: None,
            probe: None,
        }
    }

    /// When its next attempt, or the next try of its probe, is due. `None`: it waits for neither.
    #[must_use]
    pub const fn waits_until(&self) -> Option<DbTime> {
        match (self.status, self.probe) {
            (StepStatus::Waiting, _) | (StepStatus::InDoubt, Some(_)) => self.due_at,
            _ => None,
        }
    }

    /// The last attempt of a direction.
    #[must_use]
    pub(crate) const fn last_attempt(&self, direction: Direction) -> Attempt {
        match direction {
            Direction::Forward => self.attempts,
            Direction::Undo => self.undo_attempts,
        }
    }

    /// The attempt that has started and not ended, in the direction of the step's status. That of a completed step makes its
    /// lost scratch again.
    #[must_use]
    pub(crate) fn open_attempt(&self) -> Option<(Direction, Attempt)> {
        let direction = match self.status {
            StepStatus::Running | StepStatus::Completed => Direction::Forward,
            StepStatus::Compensating => Direction::Undo,
            StepStatus::Pending
            | StepStatus::Waiting
            | StepStatus::InDoubt
            | StepStatus::Skipped
            | StepStatus::Failed
            | StepStatus::Compensated
            | StepStatus::CompensationFailed
            | StepStatus::Resolved => return None,
        };
        self.attempt_open
            .then(|| (direction, self.last_attempt(direction)))
    }
}

/// What may become of the objects of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intention {
    /// A success may keep them; once their time is over, a sweep may condemn them.
    Open,
    /// They are an output.
    Kept,
    /// No success can keep them any more; a sweep deletes them.
    Condemned,
    /// A sweep has deleted them.
    Swept,
}

/// An attempt, and the state of its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptMark {
    /// The step's number.
    pub step: StepNo,
    /// Whether it runs or undoes the step.
    pub direction: Direction,
    /// From 1 in each direction.
    pub attempt: Attempt,
    /// The epoch it ran under; 0 of an upload that came with the request.
    pub epoch: Epoch,
    /// It has not ended.
    pub runs: bool,
    /// State of its objects.
    pub objects: Intention,
    /// From then on a sweep may condemn them, while they are open.
    pub sweep_at: DbTime,
}

/// A task with its steps and the time at which they were read.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRecord {
    /// The task. On the heap: records are moved often.
    pub task: Box<TaskRow>,
    /// Its steps, by number.
    pub steps: Vec<StepRow>,
    /// Its attempts, in the order of their start.
    pub marks: Vec<AttemptMark>,
    /// The id of the payload key that the last row of its journal with one names; `None`: it was never written with one.
    pub payload_key: Option<String>,
    /// The database's clock in the same query.
    pub now: DbTime,
}

impl TaskRecord {
    /// The outputs committed so far, by the names of their steps.
    pub(crate) fn outputs(&self) -> BTreeMap<String, Value> {
        let output = |row: &StepRow| Some((row.name.clone(), row.output.clone()?));
        self.steps.iter().filter_map(output).collect()
    }

    /// The step that has submitted tasks by the request as it is: which tasks it submits follows from its request, and of another one
    /// it would take those that are there for its own.
    pub(crate) fn fixes_request(&self) -> Option<&StepRow> {
        let mut steps = self.steps.iter();
        steps.find(|row| row.children.is_some() && row.status != StepStatus::Completed)
    }

    /// Whether its deadline is over: no step of it starts forward.
    #[must_use]
    pub fn is_past_deadline(&self) -> bool {
        self.task.deadline_at.is_some_and(|at| at <= self.now)
    }

    /// Whether an owner holds a lease that has not run out.
    #[must_use]
    pub fn lease_is_live(&self) -> bool {
        self.task.lease_owner.is_some()
            && self
                .task
                .lease_expires_at
                .is_some_and(|until| until > self.now)
    }

    /// Whether an owner held a lease, and it ran out.
    #[must_use]
    pub fn lease_has_expired(&self) -> bool {
        self.task.lease_owner.is_some() && !self.lease_is_live()
    }

    /// What code of a step is given: the request as its last start had it, also where that was
    /// changed since. What it has done is undone by what it was told to do.
    #[must_use]
    pub fn request_of(&self, at: usize) -> &Value {
        let given = self.steps.get(at).map(|row| row.request);
        self.numbered_request(given.unwrap_or(u32::MAX))
    }

    /// The request of this number: 0 is the first, one beyond those before is the last.
    #[must_use]
    pub(crate) fn numbered_request(&self, no: u32) -> &Value {
        let earlier = self.task.earlier_requests.get(no as usize);
        earlier.unwrap_or(&self.task.request)
    }

    /// Time until it is due; zero where it is due, or has no due time.
    #[must_use]
    pub fn due_in(&self) -> Duration {
        self.task
            .due_at
            .map_or(Duration::ZERO, |due| due.after(self.now))
    }
}

/// One try of a step, as read back.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRow {
    /// The step's number.
    pub step: StepNo,
    /// Whether it runs or undoes the step.
    pub direction: Direction,
    /// From 1 in each direction.
    pub attempt: Attempt,
    /// The epoch it ran under.
    pub epoch: Epoch,
    /// The prefix of its objects.
    pub prefix: String,
    /// How it ended; `None` while it is open.
    pub outcome: Option<Outcome>,
    /// Its error.
    pub error: Option<StepFailure>,
    /// Start.
    pub started_at: DbTime,
    /// End.
    pub ended_at: Option<DbTime>,
    /// The change that started it.
    pub change_id: ChangeId,
}

/// What happened, for the audit. One entry for each event that the judge accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Position in the audit of the task.
    pub seq: AuditSeq,
    /// The event's stable name.
    pub event: String,
    /// The task's state before; `None` for the first entry.
    pub from: Option<TaskStatus>,
    /// The task's state after.
    pub to: TaskStatus,
    /// The step concerned.
    pub step: Option<StepNo>,
    /// Its state before.
    pub step_from: Option<StepStatus>,
    /// Its state after.
    pub step_to: Option<StepStatus>,
    /// The attempt concerned.
    pub attempt: Option<Attempt>,
    /// The epoch after the event.
    pub epoch: Epoch,
    /// Actor that caused it.
    pub actor: String,
    /// More, by event; `Null` where there is no more.
    pub details: Value,
}

/// An audit entry, as read back.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditRow {
    /// From 1, without gaps.
    pub seq: AuditSeq,
    /// The change it was part of.
    pub change_id: ChangeId,
    /// When it was written.
    pub at: DbTime,
    /// The seal of its row in the journal: binds it and its time to all that came before it.
    pub seal: EntryHash,
    /// What happened and to what.
    pub entry: AuditEntry,
}

/// The past of a task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    /// Entries in the order of the audit.
    pub audit: Vec<AuditRow>,
    /// In the order of their start.
    pub attempts: Vec<AttemptRow>,
    /// Each change that was written, with the revision that it made, in order.
    pub changes: Vec<(Rev, ChangeId)>,
}
