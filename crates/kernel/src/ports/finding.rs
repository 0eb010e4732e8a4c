//! What the store is asked for when it looks for tasks: those that are due, a page of a list, those
//! in flight.

use crate::record::{DbTime, Failure};
use counterstep_contracts::{Labels, QueueName, Rev, TaskId, TaskStatus, Tenant};
use counterstep_steps::task::KnownType;
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// Which tasks to look for, and in which order they are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Find {
    /// Ready to be claimed on one of these queues and unleased: dispatched, submitted, or
    /// compensating without a due time, and not claimed for a while (their message may be lost); or
    /// waiting or compensating with a due time that has passed.
    Claimable {
        /// On these queues.
        queues: Vec<QueueName>,
        /// Of these types, versions and definitions: others must not stand in the way of those that
        /// can be run.
        known: Vec<KnownType>,
        /// Undelivered for this long.
        unclaimed_for: Duration,
        /// Behind this one, in the order in which they are found: by the time since when they are, and by id.
        after: Option<(DbTime, TaskId)>,
    },
    /// With a lease that has run out, and that no reconciler has reserved.
    Lost(Lost),
    /// As claimable ones, but no host has claimed them for long although they were offered: their
    /// message may be lost. Not those that wait for another version of a host: a message would only
    /// bring them to the wrong one once more. Those that have changed least lately come first.
    Unclaimed(Unclaimed),
    /// Asleep, of these types, versions and definitions, and a task that one of them has submitted has ended
    /// since it went to sleep, or in the ten minutes before: a read is at most that much older than the sleep
    /// that follows. Whether it had been seen is in the task's own steps. Those that have changed least
    /// lately come first.
    Parents(Vec<KnownType>),
    /// Those at which a sweep is to look, the longest due first.
    ToSweep,
    /// This one, where it is lost and a reconciler has reserved it: [`TaskHead::since`] is until when. For people.
    Reserved(TaskId),
    /// Those that ended first, of one type and state. Not one whose idempotency key still lives, or with events that
    /// are not published, or that an open task above it may undo: it cannot be purged.
    Ended {
        /// Declared name of the type.
        task_type: String,
        /// A state in which a task has ended.
        status: TaskStatus,
        /// How long ago they ended, at least.
        before: Duration,
        /// Only those that come after this task; none where it is gone.
        after: Option<TaskId>,
    },
}

/// Which lost tasks to look for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lost {
    /// Of this type only, by its declared name.
    pub task_type: Option<String>,
    /// How long ago their lease ran out, at least.
    pub stale_after: Duration,
    /// Which programs can run them.
    pub of: LostOf,
}

/// Which lost tasks to look for. Tasks of other programs must not fill the page of one's own, nor the
/// other way round.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LostOf {
    /// Of any program.
    #[default]
    All,
    /// Of these types, versions and definitions.
    These(Vec<KnownType>),
    /// Of all but these.
    Others(Vec<KnownType>),
}

/// Which tasks to offer once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclaimed {
    /// On these queues.
    pub queues: Vec<QueueName>,
    /// Of these types, versions and definitions.
    pub known: Vec<KnownType>,
    /// How long they have been offered or due, and unchanged, at least.
    pub for_at_least: Duration,
    /// One with a due time was offered again after it. Then it is left alone for as long again as
    /// had passed between its due time and its last change, but for no longer than this.
    pub at_most: Duration,
}

/// Tasks of one type, version and definition, on one queue, that have not ended, or that have completed and that such a
/// task above them may undo yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
    /// Under what they were submitted.
    pub of: KnownType,
    /// The queue on which a host is to claim them, or its lane; `None`: they are parked, and a retry dispatches them anew.
    pub queue: Option<QueueName>,
    /// How many there are, parked ones included.
    pub count: u64,
    /// The oldest of them.
    pub example: TaskId,
}

/// What is read of a task that was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskHead {
    /// Id of the task.
    pub task: TaskId,
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// Declared name of its type.
    pub task_type: String,
    /// Version of its type; `None`: it cannot be read.
    pub version: Option<u32>,
    /// Its state; `None`: it cannot be read.
    pub status: Option<TaskStatus>,
    /// Its revision.
    pub rev: Rev,
    /// Since when it has been as it was asked for.
    pub since: DbTime,
}

/// The order of a list, by when tasks were submitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// The newest first.
    #[default]
    Newest,
    /// The oldest first.
    Oldest,
}

/// Which tasks to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskQuery {
    /// Of this tenant only.
    pub tenant: Option<Tenant>,
    /// Of this type only.
    pub task_type: Option<String>,
    /// In one of these states only; none: in any.
    pub statuses: Vec<TaskStatus>,
    /// With all of these labels only.
    pub labels: Labels,
    /// With a failure like this only.
    pub failure: FailureFilter,
    /// Not older than this one, as [`first_id_at`] makes it.
    pub from: Option<TaskId>,
    /// Older than this one: the last of the page before, or the first that is too young.
    pub before: Option<TaskId>,
    /// With an id that ends so, in hexadecimal digits without hyphens.
    pub ending: Option<String>,
    /// Which of them come first.
    pub order: ListOrder,
    /// Maximum number of them.
    pub limit: u32,
}

/// What is asked of the failure of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FailureFilter {
    /// Of this class.
    pub class: Option<String>,
    /// With this in its message, as it is written.
    pub text: Option<String>,
}

impl FailureFilter {
    /// Whether it asks for nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.class.is_none() && self.text.is_none()
    }

    /// Whether a failure is like this.
    #[must_use]
    pub fn fits(&self, failure: Option<&Failure>) -> bool {
        let Some(failure) = failure else {
            return self.is_empty();
        };
        // For a parked task the failure that blocks it counts.
        let failure = failure.blocking();
        let class = self.class.as_deref();
        let text = self.text.as_deref();
        class.is_none_or(|class| failure.class == class)
            && text.is_none_or(|text| failure.message.contains(text))
    }
}

/// The least id that a task can have whose request began to arrive at this time, in milliseconds since
/// 1970 by the clock of the process that took it.
#[must_use]
pub fn first_id_at(millis: u64) -> TaskId {
    let time = u128::from(millis.min((1 << 48) - 1));
    TaskId(Uuid::from_u128(time << 80))
}

impl TaskQuery {
    /// Maximum number of candidates that are read for one page, where no index has just those that fit.
    pub const MOST_CANDIDATES: u32 = 1_000;

    /// Whether candidates have to be looked at one by one, or joined.
    #[must_use]
    pub fn searches(&self) -> bool {
        !self.labels.is_empty() || !self.failure.is_empty() || self.ending.is_some()
    }

    /// Whether an id ends as is asked for.
    #[must_use]
    pub fn has_ending(&self, task: TaskId) -> bool {
        let ending = self.ending.as_deref();
        ending.is_none_or(|ending| task.0.as_simple().to_string().ends_with(ending))
    }

    /// Whether one task stands before another one.
    #[must_use]
    pub fn is_ahead(&self, one: TaskId, other: TaskId) -> bool {
        match self.order {
            ListOrder::Newest => one > other,
            ListOrder::Oldest => one < other,
        }
    }

    /// The same list behind this task.
    #[must_use]
    pub fn behind(mut self, last: TaskId) -> Self {
        match self.order {
            ListOrder::Newest => self.before = self.before.into_iter().chain([last]).min(),
            ListOrder::Oldest => {
                let next = TaskId(Uuid::from_u128(last.0.as_u128().saturating_add(1)));
                self.from = self.from.into_iter().chain([next]).max();
            }
        }
        self
    }

    /// Whether a task is what is asked for; its tenant is known.
    #[must_use]
    pub fn fits(&self, line: &TaskLine) -> bool {
        let of_type = self.task_type.as_ref();
        of_type.is_none_or(|of| line.task_type == *of)
            && (self.statuses.is_empty() || self.statuses.contains(&line.status))
            && line.labels.contains(&self.labels)
            && self.failure.fits(line.failure.as_ref())
            && self.has_ending(line.task)
            && self.from.is_none_or(|from| line.task >= from)
            && self.before.is_none_or(|before| line.task < before)
    }

    /// Candidates for one page of a search, along the index that serves it.
    #[must_use]
    pub fn candidates(&self) -> u32 {
        let all_fit = self.tenant.is_some()
            && self.labels.len() == 1
            && self.statuses.is_empty()
            && self.task_type.is_none()
            && self.failure.is_empty()
            && self.ending.is_none();
        if all_fit {
            self.limit
        } else {
            self.limit.max(Self::MOST_CANDIDATES)
        }
    }
}

/// What a list holds.
#[derive(Debug, Clone, Copy)]
pub enum TaskList<'a> {
    /// A page in the order of its query. A search looks at no more than [`TaskQuery::candidates`], in each state
    /// where it goes state by state.
    Page(&'a TaskQuery),
    /// These tasks, in any order; those that are not there are left out.
    These(&'a [TaskId]),
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskPage {
    /// Those that fit, in the order of the query.
    pub lines: Vec<TaskLine>,
    /// The search has ended behind this task, and further ones may fit as well. `None`: it has come to the
    /// end, or the page is full.
    pub looked_to: Option<TaskId>,
}

impl TaskPage {
    /// One page of several, each of a list of its own with the order and the limit of the query; a task may be in several of them.
    #[must_use]
    pub fn merged(pages: Vec<Self>, query: &TaskQuery) -> Self {
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let (mut lines, mut looked_to) = (Vec::new(), None);
        for page in pages {
            let last = page.lines.last().filter(|_| page.lines.len() >= limit);
            // Behind where the first of them ends, others may have tasks that were not read.
            let ends = last.map(|line| line.task).or(page.looked_to);
            looked_to = match (looked_to, ends) {
                (Some(one), Some(other)) if query.is_ahead(other, one) => ends,
                (None, _) => ends,
                _ => looked_to,
            };
            lines.extend(page.lines);
        }
        lines.retain(|line: &TaskLine| {
            looked_to.is_none_or(|end| line.task == end || query.is_ahead(line.task, end))
        });
        lines.sort_unstable_by(|one, other| match query.order {
            ListOrder::Newest => other.task.cmp(&one.task),
            ListOrder::Oldest => one.task.cmp(&other.task),
        });
        lines.dedup_by_key(|line| line.task);
        lines.truncate(limit);
        let looked_to = looked_to.filter(|_| lines.len() < limit);
        Self { lines, looked_to }
    }
}

/// A line of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLine {
    /// Id of the task.
    pub task: TaskId,
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// Declared name of its type.
    pub task_type: String,
    /// Version of its type.
    pub version: u32,
    /// State of the task.
    pub status: TaskStatus,
    /// Its revision.
    pub rev: Rev,
    /// Why it did not complete.
    pub failure: Option<Failure>,
    /// Ended with effects that were not undone.
    pub residue: bool,
    /// Its labels.
    pub labels: Labels,
    /// When it was submitted.
    pub created_at: DbTime,
    /// When it was last changed.
    pub updated_at: DbTime,
    /// When it came to its terminal state.
    pub finished_at: Option<DbTime>,
}

/// How much later than its own time a change may become visible to others: a statement has a limit of 15 s on
/// PostgreSQL, and a step's own statements come before the end of their transaction.
pub const SEEN_WITHIN: Duration = Duration::from_secs(60);

/// The tasks whose revisions are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevisionsOf {
    /// These.
    Tasks(Vec<TaskId>),
    /// This one, if it is this tenant's: also where its rows cannot be read.
    TaskOf(Tenant, TaskId),
    /// Those of this tenant that have not ended.
    Open(Tenant),
    /// Those of a tenant, or of all, and of these types that ended after this time, and of those that ended at this
    /// time the ones behind this task.
    Ended {
        /// Tenant of the tasks; `None`: all.
        tenant: Option<Tenant>,
        /// By their declared names.
        task_types: Vec<String>,
        /// The last one of the page before.
        after: (DbTime, TaskId),
        /// Maximum number of them.
        limit: u32,
    },
    /// Those of all tenants that are parked, in the order in which they last changed. All parked ones are looked at: no index
    /// has them in that order, and there are few.
    Parked {
        /// By the declared name of a type: those of it that last changed after this time, and at this time behind this task.
        after: BTreeMap<String, (DbTime, TaskId)>,
        /// Maximum number of them.
        limit: u32,
    },
}

/// The revisions of tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revisions {
    /// When they were read, by the database's clock.
    pub now: DbTime,
    /// Of each task that is there.
    pub tasks: Vec<TaskRevision>,
}

/// At which revision a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskRevision {
    /// Id of the task.
    pub task: TaskId,
    /// Its revision.
    pub rev: Rev,
    /// When it ended, of tasks that were asked for by that; else its last change.
    pub at: DbTime,
}
