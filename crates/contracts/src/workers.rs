//! Bodies of `GET /api/workers`: the processes of an installation, and what is under way. Times are
//! RFC 3339 in UTC.

use crate::forms::{ACTOR, NOTE};
use crate::ids::TaskId;
use crate::queue::PauseView;
use crate::state::{TaskStatus, text_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

text_enum!(
    /// What has become of a process, as far as the database knows.
    WorkerState {
        /// It was seen lately.
        Alive = "alive",
        /// It was not seen for too long, and did not say that it stops.
        Lost = "lost",
        /// It said that it stops.
        Stopped = "stopped",
    }
);

text_enum!(
    /// How a turn of a process has ended: in the state in which its task rests, or without one.
    TurnOutcome {
        /// The task completed.
        Completed = "completed",
        /// It has failed, and is undone.
        Failed = "failed",
        /// It was cancelled, and is undone.
        Cancelled = "cancelled",
        /// A person has settled it.
        Resolved = "resolved",
        /// It is parked: an undo gave up.
        CompensationFailed = "compensation_failed",
        /// It is parked: it gave up going forward.
        DeadLettered = "dead_lettered",
        /// It was given back: for another host, or until it is due.
        GivenBack = "given_back",
        /// Its lease was lost.
        Lost = "lost",
        /// The database did not answer.
        StoreDown = "store_down",
    }
);

impl TurnOutcome {
    /// That of a turn whose task rests in this state; `None`: no task rests in it.
    #[must_use]
    pub const fn of_rest(status: TaskStatus) -> Option<Self> {
        match status {
            TaskStatus::Completed => Some(Self::Completed),
            TaskStatus::Failed => Some(Self::Failed),
            TaskStatus::Cancelled => Some(Self::Cancelled),
            TaskStatus::Resolved => Some(Self::Resolved),
            TaskStatus::CompensationFailed => Some(Self::CompensationFailed),
            TaskStatus::DeadLettered => Some(Self::DeadLettered),
            TaskStatus::Submitted
            | TaskStatus::Dispatched
            | TaskStatus::Running
            | TaskStatus::Waiting
            | TaskStatus::Compensating => None,
        }
    }
}

/// Body of `POST /api/workers/{machine}/pause` and `/resume`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PauseWorkersRequest {
    /// Which processes of the machine: `worker`, `api`, or `dev`.
    #[serde(default = "worker")]
    #[schemars(length(min = 1, max = 100))]
    pub role: String,
    /// Reason, for the audit.
    #[schemars(regex(pattern = NOTE), length(min = 1, max = 4000))]
    pub note: String,
    /// Who decides, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ACTOR), length(min = 1, max = 100))]
    pub actor: Option<String>,
}

fn worker() -> String {
    "worker".to_owned()
}

/// The processes of a machine that have the same role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineView {
    /// The machine's name.
    pub machine: String,
    /// `worker`, `api`, or `dev`.
    pub role: String,
    /// Since when they are paused, and why; missing: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseView>,
    /// How many of them are alive.
    pub processes: u64,
    /// How many tasks those ran when they were seen last.
    pub running_count: u64,
}

/// A task type that a process can run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerType {
    /// Declared name.
    pub name: String,
    /// Version.
    pub version: u32,
    /// Digest of its declaration.
    pub definition: String,
}

/// A process, as it says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerView {
    /// Names this start of it, as leases and the audit do.
    pub id: String,
    /// `worker`, `api`, `reconciler`, or `dev`.
    pub role: String,
    /// What has become of it.
    pub state: WorkerState,
    /// The machine's name.
    pub machine: String,
    /// Version of the program.
    pub program: String,
    /// Since when it is paused, and why: it takes no tasks. Missing: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseView>,
    /// The queues that it takes tasks from; none: it takes none.
    pub queues: Vec<String>,
    /// What it can run.
    pub task_types: Vec<WorkerType>,
    /// Tasks at a time.
    pub concurrency: u32,
    /// How many it ran when it was seen last.
    pub running_count: u32,
    /// Which; of many the first hundred.
    pub running: Vec<TaskId>,
    /// Heavy steps that it runs at a time.
    pub heavy: u32,
    /// How many it ran when it was seen last.
    pub heavy_count: u32,
    /// Permits of limits that its attempts held then, by limit, and by tenant and label where it is one for each; of
    /// many the first hundred.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub permits: BTreeMap<String, u32>,
    /// Runs of code that was abandoned and blocks its thread yet.
    pub abandoned_count: u32,
    /// Bytes of memory that the process held when it was seen last; missing: its system has no such figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// When it was seen first.
    #[schemars(extend("format" = "date-time"))]
    pub started_at: String,
    /// When it was seen last.
    #[schemars(extend("format" = "date-time"))]
    pub seen_at: String,
    /// When it said that it stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub stopped_at: Option<String>,
    /// Results that it keeps on its disk until the database takes them, of a worker on PostgreSQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptView>,
    /// The queues that it could not fetch from when it was seen last; of many the first hundred. Tasks of them are found by
    /// polling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fetch_errors: Vec<FetchErrorView>,
    /// The last pass of a reconciler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pass: Option<PassView>,
}

/// Answer of `GET /api/workers/{worker_id}`: a process, what it runs, and what it ran last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerDetails {
    /// The process, as the list has it.
    pub worker: WorkerView,
    /// The tasks that it ran when it was seen last; of many the first hundred.
    pub running: Vec<RunningTaskView>,
    /// Its last turns that have ended, at most a hundred, the last one first. A task that was given back and taken
    /// again is there more than once.
    pub recent: Vec<RecentTurnView>,
    /// How many of these turns had a failed attempt.
    pub failures: FailureShare,
    /// The same of the other processes that are alive, over those of their last turns whose tasks are of the same types.
    pub neighbours: NeighboursView,
}

/// A task that a process runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunningTaskView {
    /// Id of the task.
    pub task_id: TaskId,
    /// Declared name of its type; missing: it waits for room, a permit or its claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// The step that runs; of several the one that has begun last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// When the process has claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub since: Option<String>,
}

/// A turn that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecentTurnView {
    /// Id of the task.
    pub task_id: TaskId,
    /// Declared name of its type.
    pub task_type: String,
    /// How the turn has ended.
    pub outcome: TurnOutcome,
    /// Attempts of steps and undos that failed in it.
    pub failed_attempts: u32,
    /// When it ended.
    #[schemars(extend("format" = "date-time"))]
    pub ended_at: String,
    /// From the claim to the end, in milliseconds.
    pub took_millis: u64,
}

/// How many turns had a failed attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureShare {
    /// Turns that had one.
    pub failed: u64,
    /// All turns.
    pub turns: u64,
}

/// Turns of other processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NeighboursView {
    /// Processes that had such turns.
    pub processes: u64,
    /// How many of the turns had a failed attempt.
    pub failures: FailureShare,
}

/// What keeps a process from fetching messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FetchErrorView {
    /// Of this queue, or of this lane of it alone where a consumer is named.
    pub queue: String,
    /// The words of the broker, or of its client.
    pub message: String,
    /// The consumer that the process may not use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// The subject that the user of the process may not publish to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied_subject: Option<String>,
}

/// Results that a process keeps, when it was seen last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptView {
    /// Number of results.
    pub results: u64,
    /// Their size.
    pub bytes: u64,
    /// Age of the oldest, in whole seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_seconds: Option<u64>,
}

/// A pass of a reconciler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PassView {
    /// Since its end.
    pub seconds_ago: u64,
    /// What it did, by name.
    pub counts: BTreeMap<String, u64>,
}

/// Answer of `GET /api/workers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkersView {
    /// What is under way.
    pub status: StatusView,
    /// The processes, the last seen first; at most 1,000.
    pub workers: Vec<WorkerView>,
}

/// What is under way, counted. Ages are in whole seconds; a missing one: there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusView {
    /// Tasks that have not ended.
    pub tasks: Vec<TaskCountView>,
    /// Since the last change of the running task that has changed least lately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_running_seconds: Option<u64>,
    /// Of the task that could be claimed for the longest time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_due_seconds: Option<u64>,
    /// Of the oldest event that is not published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_unpublished_seconds: Option<u64>,
    /// Processes that were seen lately.
    pub workers_alive: u64,
    /// Processes that are lost.
    pub workers_lost: u64,
}

/// Number of tasks of a queue in a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCountView {
    /// The state.
    pub status: TaskStatus,
    /// The queue on which they were offered last.
    pub queue: String,
    /// Number of tasks.
    pub count: u64,
}

/// Answer of `GET /api/history`: how an installation was doing, as the process that answers has looked at it
/// since it started, an hour back at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryView {
    /// The first first.
    pub samples: Vec<SampleView>,
}

/// What one look has found. Numbers are over all tenants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SampleView {
    /// When it looked.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// The time since the look before, in milliseconds: in it came and went what is counted next.
    pub millis: u64,
    /// Tasks that were submitted in that time.
    pub submitted: u64,
    /// Tasks that ended in that time, by how they did; of types that the process knows.
    pub ended: BTreeMap<TaskStatus, u64>,
    /// Tasks that had not ended, by state.
    pub tasks: BTreeMap<TaskStatus, u64>,
    /// Tasks that waited to be claimed, by queue.
    pub waiting: BTreeMap<String, u64>,
    /// Of the task that could be claimed for the longest time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_due_seconds: Option<u64>,
    /// Processes that were seen lately.
    pub workers_alive: u64,
    /// Processes that were not, and did not say that they stop.
    pub workers_lost: u64,
    /// Tasks that these processes may run at a time.
    pub slots: u64,
    /// Tasks that they ran.
    pub slots_busy: u64,
}

text_enum!(
    /// How a breaker stands.
    BreakerStanding {
        /// Attempts go through.
        Closed = "closed",
        /// They are kept back.
        Open = "open",
        /// One of them tries.
        HalfOpen = "half_open",
    }
);

/// Body of `POST /api/breakers/{name}/close`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BreakerRequest {
    /// Reason, for the audit.
    #[schemars(regex(pattern = NOTE), length(min = 1, max = 4000))]
    pub note: String,
    /// Who decides, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ACTOR), length(min = 1, max = 100))]
    pub actor: Option<String>,
}

/// A line of `GET /api/breakers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BreakerView {
    /// Name of the breaker.
    pub name: String,
    /// How it stands. Without a Redis each process has its own: then that of the process which lets the fewest
    /// attempts through, as of the last refresh of the worker registry.
    pub state: BreakerStanding,
    /// Without a Redis: the processes whose own breaker is not closed. After a close: those that close theirs with
    /// their next refresh.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<String>,
}
