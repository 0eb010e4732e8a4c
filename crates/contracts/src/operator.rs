//! Bodies of the routes for people who look after tasks: settle, retry, plan, why, dead letters,
//! and what a deployment would leave behind. Times are RFC 3339 in UTC.

use crate::access::Role;
use crate::cause::Cause;
use crate::children::ParentView;
use crate::forms::{ACTOR, NOTE};
use crate::http::FailureView;
use crate::ids::{Attempt, StepNo, TaskId};
use crate::labels::Labels;
use crate::settled::SettledAs;
use crate::state::{Direction, StepStatus, TaskStatus, WaitReason};
use crate::workers::WorkerState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Body of `POST /api/tasks/{id}/resolve`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResolveRequest {
    /// The step that is settled; missing: the whole task, which then ends as Resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// What has become of it.
    #[serde(rename = "as")]
    pub settled: SettledAs,
    /// The step's output, with `done` only; it must fit the declared type. A missing one counts as
    /// `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The task that has done it, with `redriven` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Why, for the audit.
    #[schemars(regex(pattern = NOTE), length(min = 1, max = 4000))]
    pub note: String,
    /// Who, by the caller's own words: they stand behind the note. The audit's actor is the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ACTOR), length(min = 1, max = 100))]
    pub actor: Option<String>,
}

/// Body of `POST /api/tasks/{id}/retry`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryRequest {
    /// `forward`: the steps that gave up run again. `undo`: everything is undone. Missing:
    /// `forward` for a dead letter, `undo` for a task whose undo gave up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Another request, with `forward`: steps that start from then on are given it. It must fit the type and
    /// have the same files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Value>,
    /// Fields of the request that are to be others, in place of `request`: a JSON merge patch of RFC 7396.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Value>,
    /// Why, for the audit.
    #[schemars(regex(pattern = NOTE), length(min = 1, max = 4000))]
    pub note: String,
    /// Who, by the caller's own words: they stand behind the note. The audit's actor is the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ACTOR), length(min = 1, max = 100))]
    pub actor: Option<String>,
}

/// Body of `POST /api/tasks/{id}/recoveries`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveriesRequest {
    /// New value of the counter of consecutive host losses; 0 to `max_recoveries` of the task's type.
    pub recovery_attempts: u32,
    /// Why, for the audit.
    #[schemars(regex(pattern = NOTE), length(min = 1, max = 4000))]
    pub note: String,
    /// Who, by the caller's own words: they stand behind the note. The audit's actor is the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ACTOR), length(min = 1, max = 100))]
    pub actor: Option<String>,
}

/// Answer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveriesAnswer {
    /// Id of the task.
    pub task_id: TaskId,
    /// Its state; the same as before.
    pub status: TaskStatus,
    /// What counts now.
    pub recovery_attempts: u32,
    /// What its type allows (`max_recoveries`).
    pub allowed: u32,
}

/// Answer to a resolve or a retry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorAnswer {
    /// Id of the task.
    pub task_id: TaskId,
    /// Its state now.
    pub status: TaskStatus,
    /// Steps that wait for a decision still. While there are any, the task stays parked.
    pub open_steps: Vec<String>,
    /// Steps that will be undone, in that order.
    pub will_undo: Vec<String>,
}

/// What an undo of the whole task would do now: answer of `GET /api/tasks/{id}/plan`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UndoPlan {
    /// Id of the task.
    pub task_id: TaskId,
    /// State of the task.
    pub status: TaskStatus,
    /// What would have to happen for the plan to be carried out, or why that can never be.
    pub when: String,
    /// One after another; the undos of one stage go side by side.
    pub stages: Vec<UndoStage>,
    /// Steps that started and that no undo touches, the latest start first.
    pub not_undone: Vec<NotUndone>,
}

/// Undos that go side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UndoStage {
    /// The parallel group, where the step is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The latest start first.
    pub steps: Vec<PlannedUndo>,
}

/// One step's undo in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedUndo {
    /// Number of the step.
    pub no: StepNo,
    /// Name of the step.
    pub step: String,
    /// State of the step.
    pub status: StepStatus,
    /// The function that undoes it, or `built-in`.
    pub undo: String,
    /// Whether it is unknown how far it came: its undo gets no output, unless a probe finds one.
    pub in_doubt: bool,
    /// The function that finds out first how far it came, where it is in doubt and there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<String>,
    /// Undo tries so far.
    pub undo_attempts: Attempt,
    /// Whether its undo has given up before: only an operator's retry tries it again.
    pub gave_up: bool,
}

/// A step that no undo touches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotUndone {
    /// Name of the step.
    pub step: String,
    /// State of the step.
    pub status: StepStatus,
    /// Why it is not undone.
    pub kind: NotUndoneKind,
    /// The same for people; for a waived undo the declaration's words.
    pub reason: String,
}

/// Why a step is not undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotUndoneKind {
    /// The declaration waives its undo, and says why.
    Waived,
    /// It has no effects.
    Pure,
    /// It has been undone.
    Undone,
    /// A person has settled it.
    Settled,
    /// The task that this one runs again did it.
    Kept,
    /// Its task has ended with its effects, and nothing undoes a task that has ended.
    Ended,
}

/// What a task is waiting for: answer of `GET /api/tasks/{id}/why`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    /// Id of the task.
    pub task_id: TaskId,
    /// State of the task.
    pub status: TaskStatus,
    /// The task that has submitted it, where one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentView>,
    /// Everything that it waits for, what matters most first. Never empty.
    pub because: Vec<WhyReason>,
    /// What an operator can do about it: first what ends the first reason, where a call or a command does.
    pub operator_can: Vec<OperatorMove>,
    /// The id of its group, where it is parked: others have failed for the same cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What blocks it, where it is parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

/// One thing that a task waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhyReason {
    /// For programs.
    pub code: WhyCode,
    /// For people: what it waits for, and what to look at.
    pub detail: String,
    /// Until when, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub until: Option<String>,
    /// Who holds the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What has become of that process, where it has said anything of itself. Its lease alone
    /// decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_state: Option<WorkerState>,
    /// The queue on which it was offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The steps concerned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Those of the tasks that it has submitted for which a person has to decide, else the first that has not ended; or those that hold
    /// the places that it waits for, or come first: three at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskId>,
    /// What a waiting task waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for: Option<WaitReason>,
}

/// What a task waits for, for programs. A code never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhyCode {
    /// A host holds the lease and works on it.
    Working,
    /// The host that worked on it is lost; the reconciler will take it back.
    HostLost,
    /// The host that worked on it was cut off from the database and keeps results: it goes on once it reaches the database again.
    CutOff,
    /// The host that worked on it is lost, and a reconciler has reserved it: it takes it back within seconds.
    ReservedForRecovery,
    /// It sleeps until it is due: a retry, a timer, an undo, or other tasks of its key that come.
    Due,
    /// It sleeps until something comes from outside.
    Outside,
    /// It waits until tasks that it has submitted have ended, or are undone.
    Tasks,
    /// The tasks that it has submitted have ended, and nothing has woken it.
    WakeLost,
    /// It waits for a place: as many tasks of its type or key are under way as may be.
    Concurrency,
    /// There is a place for it, and nothing has woken it.
    PlaceFree,
    /// There is a place, and an older task of its key that has not started comes first.
    PlaceBlocked,
    /// Tasks of its key are being undone to make room for it.
    Replacing,
    /// It was offered to hosts and none has claimed it yet, and nothing is known that keeps it from being claimed.
    Unclaimed,
    /// It was accepted and is not offered to hosts yet.
    Unannounced,
    /// It was offered in the lane of its queue that goes last, and nothing else keeps it from being claimed.
    Backlog,
    /// An operator has paused its queue.
    QueuePaused,
    /// An operator has paused the processes that take it.
    WorkersPaused,
    /// No process that is known to run serves its queue and knows its type in its version and definition.
    NoHost,
    /// No process that is known to run takes it: those that took it were stopped.
    Stopping,
    /// Its next step runs in processes of the API, and none runs that takes it.
    OtherHostKind,
    /// The processes that take it have not refreshed their rows in time, and the database was there.
    HostsSilent,
    /// The database was away a moment ago: what is known of other processes is older than that.
    DatabaseWasAway,
    /// As much abandoned code blocks the threads of each process that takes it as it has slots: it takes nothing more.
    Jammed,
    /// No process that takes it has a free slot.
    NoSlot,
    /// It has lost consecutive hosts: it is run among few tasks, and no process has few enough.
    Beside,
    /// Its next step is heavy, and each process that takes it runs as many heavy steps as it may.
    Heavy,
    /// The processes that could run it cannot fetch from the broker.
    Broker,
    /// They may not use the consumer of its queue: it is missing or forbidden.
    Consumer,
    /// Other attempts use up the limit of its next step.
    Limit,
    /// An operator has set the limit of its next step so low that a day passes between two starts.
    LimitClosed,
    /// The circuit breaker of its next step is open, or lets a single attempt through.
    Breaker,
    /// It sleeps for a circuit breaker, and the hints do not say how that stands.
    BreakerUnknown,
    /// It has lost as many consecutive hosts as its type tolerates: one more ends its recovery. It delays nothing.
    LostCounts,
    /// The program that answers cannot run it: another version of its type.
    Version,
    /// The program that answers knows its version in another definition.
    Definition,
    /// Its rows cannot be read: a host parks it.
    Unreadable,
    /// A newer program has written it, and this one cannot read it.
    NewerProgram,
    /// Its deadline comes before what it waits for. It holds nothing up.
    Deadline,
    /// A cancel was accepted.
    CancelRequested,
    /// It waits for a person.
    Parked,
    /// It has ended.
    Ended,
}

/// A call that an operator can make, or a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperatorMove {
    /// What it is, for programs: `cancel`, `retry`, `step-done`, `resume-queue` …
    #[serde(default)]
    pub name: String,
    /// `operationId` of the call in the OpenAPI document; missing where it is a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// HTTP method; missing where it is a command.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub method: String,
    /// Path; missing where it is a command.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Arguments of the program's command line, where no call of the API does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A body to start from; missing where the call takes none, or where `asks` has all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Fields of the body that a person may add, or has to where it has them as null. `body`: all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<String>,
    /// The step concerned; missing: the whole task, or something beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The role that the call needs; missing where it is a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// For people, behind "What would happen if I …".
    #[serde(default)]
    pub title: String,
    /// What it does, for people.
    pub does: String,
    /// The text of its button; missing where it is a command.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub button: String,
    /// The reason that it ends. Missing: it is about the task, whatever it waits for. A reason that no call ends is over at its
    /// `until`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<WhyCode>,
}

/// One line of `GET /api/dead-letters`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetter {
    /// Id of the task.
    pub task_id: TaskId,
    /// Its type's declared name.
    pub task_type: String,
    /// Its type's version.
    pub version: u32,
    /// `dead_lettered` or `compensation_failed`.
    pub status: TaskStatus,
    /// What it was labelled with when it was submitted.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// When it was submitted.
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// Last change: the one that parked it, or what an operator has done since.
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
    /// Why it did not complete, with what blocks it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureView>,
    /// What blocks it now.
    #[serde(default)]
    pub cause: Cause,
}

/// Tasks in flight that a build could not continue: one entry a type, version and definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stranded {
    /// The type's declared name.
    pub task_type: String,
    /// Its version.
    pub version: u32,
    /// Digest of the declaration under which the tasks were submitted.
    pub definition: String,
    /// How many there are, parked ones included.
    pub count: u64,
    /// One of them.
    pub example: TaskId,
    /// Why this build cannot continue them, and what to do.
    pub why: String,
}

/// What `counterstep check-deploy --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeployCheck {
    /// Tasks that have not ended, and completed ones that may yet be undone with their parent.
    pub in_flight: u64,
    /// Those among them that this build could not continue; empty: the build can be deployed.
    pub stranded: Vec<Stranded>,
    /// Versions that this build has beside newer ones of the same type.
    #[serde(default)]
    pub older_versions: Vec<OlderVersion>,
}

/// A version of a task type that a build has beside a newer one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OlderVersion {
    /// The type's declared name.
    pub task_type: String,
    /// Its version.
    pub version: u32,
    /// Tasks of it in flight, parked ones and those that may yet be undone included. None: the next build needs it no more, once no
    /// process submits tasks of it.
    pub count: u64,
}
