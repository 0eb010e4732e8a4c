//! Bodies of the HTTP interface. Times are RFC 3339 in UTC, sizes bytes, durations as in
//! declarations (`30s`).

use crate::cause::FAILURE_CLASSES;
use crate::children::{ParentView, StepChildren};
use crate::forms::KEY;
use crate::ids::{Attempt, AuditSeq, ChangeId, Epoch, StepNo, TaskId};
use crate::labels::Labels;
use crate::problem::Problem;
use crate::run_again::PredecessorView;
use crate::settled::Settled;
use crate::state::{Direction, Outcome, StepStatus, TaskStatus, WaitReason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Answer to a submission: 202.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Accepted {
    /// The task's id; also the last segment of `Location`.
    pub task_id: TaskId,
    /// Its state when it was accepted.
    pub status: TaskStatus,
}

/// Maximum number of requests of a batch.
pub const BATCH_MOST: usize = 1000;

/// A request of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    /// Its idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = KEY))]
    pub key: Option<String>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Where its webhook goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// The request.
    pub request: Value,
}

/// Answer to a batch: 200.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchAnswer {
    /// What became of each, in the order of the requests.
    pub items: Vec<BatchOutcome>,
}

/// What became of a request of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum BatchOutcome {
    /// It is a task.
    Accepted(Accepted),
    /// It repeats an earlier request of its key, and this was the answer to that one.
    Replayed(Accepted),
    /// It is none.
    Refused {
        /// Why it was refused.
        problem: Problem,
        /// When to come again, in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u32>,
    },
}

/// A task as `GET /api/tasks/{id}` shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    /// Id of the task.
    pub task_id: TaskId,
    /// Its type's declared name.
    pub task_type: String,
    /// Its type's version.
    pub version: u32,
    /// State of the task.
    pub status: TaskStatus,
    /// What it was labelled with when it was submitted.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// What it waits for, where it is waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitReason>,
    /// When it will try again, where it is waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub due_at: Option<String>,
    /// Whether a cancel was accepted.
    pub cancel_requested: bool,
    /// Whether it ended with effects that were not undone.
    pub residue: bool,
    /// How a person has settled it, where one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
    /// Grows with every change; the ETag is made of it.
    pub revision: i64,
    /// When it was submitted.
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// When it was last changed.
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
    /// When it came to its terminal state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub finished_at: Option<String>,
    /// Times it was taken back from a lost host since it last made progress.
    pub recovery_attempts: u32,
    /// Completed steps of all steps.
    pub progress: Progress,
    /// Steps in the order of the declaration.
    pub steps: Vec<StepView>,
    /// The task that has submitted it, where one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentView>,
    /// The task that it runs again, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<PredecessorView>,
    /// The tasks that run it again, once it has ended: the last 20, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub successors: Vec<TaskId>,
    /// How the tasks stand that its steps have submitted, in the order of the steps. A step without
    /// any is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<StepChildren>,
    /// The typed response, once completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Value>,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureView>,
    /// The trace of the request that submitted it, where it has one: 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// Answer of `GET /api/tasks/{id}/payloads`: what was handed in, and what steps have put out so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Payloads {
    /// Id of the task.
    pub task_id: TaskId,
    /// The request; `null` where it was erased.
    pub request: Value,
    /// What it was before an operator changed it, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_requests: Vec<Value>,
    /// Of the steps that have an output, in order.
    pub outputs: Vec<StepOutput>,
}

/// What a step has put out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepOutput {
    /// Name of the step.
    pub step: String,
    /// What it was.
    pub output: Value,
}

/// Answer of `GET /api/tasks/{id}/audit/chain`: whether the rows of a task's audit are bound to each other
/// as they were written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChainView {
    /// Id of the task.
    pub task_id: TaskId,
    /// Whether each row follows from the one before it, and the task's row from the last one. `counterstep
    /// audit verify` says what is wrong where not.
    pub whole: bool,
    /// Rows that were checked: one for each change, with all of its entries.
    pub changes: u64,
    /// Of these, rows whose data was erased. Their digests stand.
    pub erased: u64,
    /// The hash of the last row, in hexadecimal digits.
    pub head: String,
}

/// How far a task has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// Steps that completed or were skipped.
    pub done: u32,
    /// All steps.
    pub total: u32,
}

/// A step as a client sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepView {
    /// Number of the step.
    pub no: StepNo,
    /// Name of the step.
    pub name: String,
    /// State of the step.
    pub status: StepStatus,
    /// Forward tries so far.
    pub attempts: Attempt,
    /// Undo tries so far.
    pub undo_attempts: Attempt,
    /// Its last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How far its running attempt says it is, where it says anything and that is known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<StepProgress>,
}

/// How far the running attempt of a step, or of its undo, has come. A hint: it may be late, or
/// missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepProgress {
    /// How far it is, in units of the step's own.
    pub done: u64,
    /// Out of how much; 0 where the step does not know.
    pub total: u64,
    /// 0 to 100, where the total is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// What it is at, where it says so: one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it said so.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
}

/// Why a task did not complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureView {
    /// The step that gave up, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What kind of failure it is.
    #[schemars(extend("enum" = FAILURE_CLASSES))]
    pub class: String,
    /// In the words of the step.
    pub message: String,
    /// What blocks the task now that it is parked, where that is another failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<BlockView>,
}

/// The failure of an undo, by which a task is parked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockView {
    /// The step whose undo gave up, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What kind of failure it is.
    #[schemars(extend("enum" = FAILURE_CLASSES))]
    pub class: String,
    /// In the words of the undo.
    pub message: String,
}

/// One entry of a task's audit trail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditView {
    /// From 1, without gaps.
    pub seq: AuditSeq,
    /// The change it was part of.
    pub change_id: ChangeId,
    /// By the database's clock.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// What happened.
    pub event: String,
    /// The task's state before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<TaskStatus>,
    /// The task's state after.
    pub to: TaskStatus,
    /// The step concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The step's state before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_from: Option<StepStatus>,
    /// The step's state after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_to: Option<StepStatus>,
    /// The attempt concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// The epoch under which it was written.
    pub epoch: Epoch,
    /// Who caused it: `client`, or the role and the id of a process, as `worker:{id}`.
    pub actor: String,
    /// More, by event.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
}

/// A task's audit trail and attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditTrail {
    /// Id of the task.
    pub task_id: TaskId,
    /// Entries in the order of the audit.
    pub entries: Vec<AuditView>,
    /// In the order of their start.
    pub attempts: Vec<AttemptView>,
}

/// One event of a stream of a task, the audit entry that it stands for. Its id is the entry's `seq`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEvent {
    /// The entry.
    #[serde(flatten)]
    pub entry: AuditView,
    /// The task's state after it.
    pub status: TaskStatus,
}

/// How far the running steps of a task say they are: an event without an id. A hint: it may be late,
/// or missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressEvent {
    /// By the names of steps.
    pub steps: BTreeMap<String, StepProgress>,
}

/// The name of the events of a stream that are a [`ProgressEvent`]; others have none.
pub const PROGRESS_EVENT: &str = "progress";

/// One try of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// The step's name.
    pub step: String,
    /// Whether it runs or undoes the step.
    pub direction: Direction,
    /// From 1 in each direction.
    pub attempt: Attempt,
    /// The epoch it ran under.
    pub epoch: Epoch,
    /// The process that ran it, as `worker:{id}`; of an upload who sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How it ended; missing while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Its error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Start, by the database's clock.
    #[schemars(extend("format" = "date-time"))]
    pub started_at: String,
    /// End, by the database's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub ended_at: Option<String>,
}

/// Answer to a cancel: 202 or 200.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelAnswer {
    /// Id of the task.
    pub task_id: TaskId,
    /// Its state now.
    pub status: TaskStatus,
    /// What will happen: `nothing-had-run`, `undoing`, `stopping`, `already-cancelled`.
    pub outcome: CancelOutcome,
    /// Names of the steps that will be undone, in that order. A step that is running now is among
    /// them.
    pub will_undo: Vec<String>,
}

/// What a cancel leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CancelOutcome {
    /// No step had effects: it is cancelled.
    NothingHadRun,
    /// No host is running it: the undo starts at once.
    Undoing,
    /// A host is running it: its step is told, then the undo starts.
    Stopping,
    /// It had been cancelled before.
    AlreadyCancelled,
}

/// Answer to a signal: 202. The same for each repetition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignalAnswer {
    /// Id of the task.
    pub task_id: TaskId,
    /// The signal's name, which is that of the step that waits for it.
    pub signal: String,
    /// When it was accepted.
    #[schemars(extend("format" = "date-time"))]
    pub received_at: String,
}

/// One line of a list of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskSummary {
    /// Id of the task.
    pub task_id: TaskId,
    /// Its type's declared name.
    pub task_type: String,
    /// State of the task.
    pub status: TaskStatus,
    /// What it was labelled with when it was submitted.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// When it was submitted.
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// When it was last changed.
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
    /// When it came to its terminal state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub finished_at: Option<String>,
}

/// One line of `GET /api/tasks/{id}/children`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChildSummary {
    /// Id of the task.
    pub task_id: TaskId,
    /// Its type's declared name.
    pub task_type: String,
    /// Name of the step that has submitted it.
    pub step: String,
    /// Its place among the tasks of that step, from 0.
    pub place: u32,
    /// State of the task.
    pub status: TaskStatus,
    /// Why it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureView>,
}

/// One event of the stream of many tasks: a task that has changed, as it is now. A task may come again
/// with the same revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeEvent {
    /// The task.
    #[serde(flatten)]
    pub task: TaskSummary,
    /// Grows with every change of the task.
    pub revision: i64,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    /// Newest first; children by step and place. Where a list has to look for what fits, a page may
    /// hold few, or none, and go on all the same.
    pub items: Vec<T>,
    /// Hand it back as `?cursor=` for the next page; missing on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// The only page of a list.
    #[must_use]
    pub const fn whole(items: Vec<T>) -> Self {
        Self {
            items,
            next_cursor: None,
        }
    }
}

/// Answer of `/healthz` and `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok` or `unavailable`.
    pub status: String,
    /// Each dependency with `ok` or what is wrong.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, String>,
}
