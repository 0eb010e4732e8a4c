//! Processes as they say of themselves who they are, and counts of what is under way, as rows of
//! the store. Nothing is ever decided by them: that a host is lost its leases say.

use super::activity::Activity;
use super::first_id_at;
use crate::record::DbTime;
use counterstep_contracts::workers::{BreakerStanding, WorkerState};
use counterstep_contracts::{QueueName, TaskId, TaskStatus};
use counterstep_steps::task::KnownType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a process says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRow {
    /// Names this start of it: the name in leases and audit entries. Its first part is the role.
    pub id: String,
    /// The machine's name.
    pub machine: String,
    /// The version of the program.
    pub program: String,
    /// From which queues it takes tasks; none: it takes none.
    pub queues: Vec<QueueName>,
    /// What it can run.
    pub types: Vec<KnownType>,
    /// Tasks at a time.
    pub concurrency: u32,
    /// The tasks that it runs; of many the first hundred.
    pub running: Vec<TaskId>,
    /// How many it runs.
    pub running_count: u32,
    /// Heavy steps that it runs at a time.
    pub heavy: u32,
    /// Heavy steps that it runs.
    pub heavy_count: u32,
    /// Permits that its attempts hold, by limit; of many the first hundred.
    pub permits: BTreeMap<String, u32>,
    /// Number of abandoned pieces of code that still block their threads.
    pub abandoned_count: u32,
    /// How long after its last refresh it counts as lost.
    pub lost_after: Duration,
    /// Its last sweep, where it is a reconciler that has made one.
    pub passed: Option<Passed>,
    /// What it keeps in its spool; `None`: it has none.
    pub kept: Option<KeptResults>,
    /// The queues that it cannot fetch from; of many the first hundred.
    pub fetch_errors: Vec<FetchError>,
    /// Its own breakers that are not closed. None where all processes share theirs.
    pub breakers: BTreeMap<String, BreakerStanding>,
    /// What it does, and what it did last.
    pub activity: Activity,
    /// When its first row was written, by the database's clock; `None`: it has not read that yet.
    pub started_at: Option<DbTime>,
    /// It stops, and runs nothing any more.
    pub is_stopped: bool,
}

/// What keeps a process from fetching messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchError {
    /// Of this queue. Where a consumer is named, of this lane of a queue alone.
    pub queue: QueueName,
    /// The words of the broker, or of its client: one short line without passwords.
    pub message: String,
    /// The consumer that this process may not use; `None`: the fetch as a whole fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<DeniedConsumer>,
}

/// A consumer that a process may not use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedConsumer {
    /// Name of the consumer.
    pub name: String,
    /// The subject that the user of the process may not publish to.
    pub subject: String,
}

/// Results of attempts that a process keeps until the database takes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeptResults {
    /// Number of results.
    pub results: u64,
    /// Their size.
    pub bytes: u64,
    /// Of the oldest, by its machine's calendar.
    pub oldest: Option<Duration>,
}

/// A pass of a reconciler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// How long before the database's now it ended.
    pub ago: Duration,
    /// What it did, by name.
    pub counts: BTreeMap<String, u64>,
}

/// A process as the store has seen it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSeen {
    /// What it said last.
    pub row: WorkerRow,
    /// Its last row was written then.
    pub seen_at: DbTime,
}

impl WorkerSeen {
    /// When its first row was written.
    #[must_use]
    pub fn started_at(&self) -> DbTime {
        self.row.started_at.unwrap_or(self.seen_at)
    }

    /// When it stopped.
    #[must_use]
    pub fn stopped_at(&self) -> Option<DbTime> {
        self.row.is_stopped.then_some(self.seen_at)
    }

    /// What has become of it, at `now` of the database.
    #[must_use]
    pub fn state(&self, now: DbTime) -> WorkerState {
        if self.row.is_stopped {
            WorkerState::Stopped
        } else if now.after(self.seen_at) > self.row.lost_after {
            WorkerState::Lost
        } else {
            WorkerState::Alive
        }
    }

    /// Whether it has refreshed its row as often as it does while it lives. One that was killed
    /// counts as alive until `lost_after` is over, and is not fresh long before.
    #[must_use]
    pub(crate) fn is_fresh(&self, now: DbTime) -> bool {
        now.after(self.seen_at) <= refreshed_every(self.row.lost_after) + REFRESH_TAKES
    }

    /// `worker`, `api`, `reconciler`, or `dev` for all of them in one process.
    #[must_use]
    pub fn role(&self) -> &str {
        self.row
            .id
            .split_once(':')
            .map_or(&*self.row.id, |(role, _)| role)
    }

    /// Whether it takes such tasks of this queue, or lane of a queue.
    #[must_use]
    pub fn serves(&self, queue: &str, of: &KnownType) -> bool {
        let queue = QueueName(queue.to_owned()).base();
        self.row.queues.contains(&queue) && self.row.types.contains(of)
    }
}

/// Timeout of a refresh: the next one writes what it has not written.
pub(crate) const REFRESH_TAKES: Duration = Duration::from_secs(2);

/// Time between two refreshes of a process that counts as lost after `lost_after`: a third of it, as two may
/// get lost.
pub(crate) fn refreshed_every(lost_after: Duration) -> Duration {
    (lost_after / 3).max(Duration::from_millis(50))
}

/// Maximum number of processes that are read, the last seen first.
pub const WORKERS_READ: u32 = 1_000;

/// Processes as they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workers {
    /// The database's clock when they were read.
    pub now: DbTime,
    /// The last seen first, at most [`WORKERS_READ`].
    pub rows: Vec<WorkerSeen>,
}

/// Number of tasks of a queue in a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCount {
    /// The state; none that is terminal.
    pub status: TaskStatus,
    /// The queue on which they were offered last.
    pub queue: String,
    /// Their values of the labels that were asked for, in that order; empty where a task has no such
    /// label.
    pub labels: Vec<String>,
    /// Number of tasks.
    pub count: u64,
}

/// Number of tasks of a type that are parked in a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedCount {
    /// The state.
    pub status: TaskStatus,
    /// Declared name of their type.
    pub task_type: String,
    /// Number of tasks.
    pub count: u64,
    /// Since the last change of the one that has changed least lately.
    pub oldest: Duration,
}

/// Maximum number of types of parked tasks that are counted apart, in each state: those with the most.
pub const MOST_PARKED_TYPES: u32 = 1_000;

/// The value in metrics of labels whose own values are beyond [`MOST_LABEL_VALUES`].
pub const OTHER: &str = "other";

/// Maximum number of values of labels that metrics show: clients choose them, and each is a series. Of
/// several labels, combinations count.
pub const MOST_LABEL_VALUES: usize = 100;

/// Which tasks to count that came or went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowQuery {
    /// After this time.
    pub since: DbTime,
    /// And not after this one: what is later is in the next count.
    pub until: DbTime,
    /// Of those that went: of these types, by their declared names.
    pub task_types: Vec<String>,
}

impl FlowQuery {
    /// How far the time in a task's id may be from the time of its submission: processes make ids by their
    /// own clocks, before the task is submitted.
    const AROUND: Duration = Duration::from_secs(10);

    /// The ids among which tasks are looked for that were submitted: from the first, and below the second.
    #[must_use]
    pub fn ids(&self) -> [TaskId; 2] {
        let millis = |at: DbTime| u64::try_from(at.0 / 1_000).unwrap_or_default();
        let around = u64::try_from(Self::AROUND.as_millis()).unwrap_or_default();
        let first = millis(self.since).saturating_sub(around);
        let last = millis(self.until).saturating_add(around);
        [first_id_at(first), first_id_at(last)]
    }
}

/// Tasks of all tenants that came and went since a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flow {
    /// Submitted. One whose id was made more than ten seconds before, since its files took as long to arrive or a
    /// clock is wrong by as much, is not among them.
    pub submitted: u64,
    /// Ended, by how they did.
    pub ended: BTreeMap<TaskStatus, u64>,
}

/// What is under way, counted. Ages are by the database's clock; `None`: there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Tasks that have not ended, in the order of status, queue and labels.
    pub tasks: Vec<TaskCount>,
    /// Since the last change of the running task that has changed least lately. Heartbeats are no
    /// change.
    pub oldest_running: Option<Duration>,
    /// Of the task that could be claimed for the longest time.
    pub oldest_due: Option<Duration>,
    /// The same by queue, of the tasks that are submitted or dispatched alone; a queue without such tasks is left out.
    pub oldest_unclaimed: BTreeMap<QueueName, Duration>,
    /// Of the oldest event that is not published.
    pub oldest_unpublished: Option<Duration>,
    /// Parked tasks, the most of a type and state first.
    pub parked: Vec<ParkedCount>,
}
