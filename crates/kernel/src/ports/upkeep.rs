//! What sweeps ask of the store beyond the tasks themselves: what the rows say of objects that a listing has shown, and
//! whose turn it is to list.

use super::store::{Intent, StoreError};
use crate::record::DbTime;
use async_trait::async_trait;
use counterstep_contracts::{Rev, TaskId, TaskStatus, Tenant};
use std::time::Duration;

/// An attempt as the keys of its objects name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptRef {
    /// Its task.
    pub task: TaskId,
    /// What its objects' keys begin with.
    pub prefix: String,
}

/// What the rows say of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Declared name of its task's type; `None`: there is no row of the task.
    pub task_type: Option<String>,
    /// What its own row says.
    pub intent: IntentState,
}

/// What the row of an attempt says of its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntentState {
    /// They are an output, and neither undone nor resolved.
    Kept,
    /// They may become one: the attempt's time has not run out, or it is open under a live lease. Or their task has a
    /// tombstone, and whoever deletes it comes by.
    Live,
    /// No success has kept them in time, or they were released: a sweep may condemn them.
    Overdue(Intent),
    /// A sweep has been there. Whatever lies there was stored later, or left there on purpose.
    Swept,
    /// There is no such row.
    Missing,
    /// Its row cannot be read, and why. Nothing of it is touched, and the other attempts are answered for.
    Unreadable(String),
}

/// What the rows say of several attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standings {
    /// The database's clock in the same query.
    pub now: DbTime,
    /// One for each attempt that was asked for, in that order.
    pub of: Vec<Standing>,
}

/// Work on the row that says whose turn it is to list all objects. There is one row for each interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListingOp {
    /// Takes the turn where a listing is due or was broken off, and nobody has it.
    Claim {
        /// The interval, from start to start.
        every: Duration,
        /// Who takes it.
        by: String,
        /// Nobody else gets it for so long.
        hold: Duration,
    },
    /// Notes how far it has come. The turn may have gone to somebody else meanwhile.
    Keep {
        /// The interval.
        every: Duration,
        /// Who has it.
        by: String,
        /// Where to go on; `None`: the listing is at its end.
        cursor: Option<String>,
        /// Nobody else gets it for so long from now on; zero lets go of it.
        hold: Duration,
    },
}

/// A turn that the caller has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingTurn {
    /// Where to go on; `None`: from the beginning.
    pub cursor: Option<String>,
}

/// A task on its way out of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// Which.
    pub task: TaskId,
    /// Whose.
    pub tenant: Tenant,
    /// At this revision, which it keeps once it has ended; 0 of a tombstone.
    pub rev: Rev,
}

/// Work on tasks that have ended long enough ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetireOp {
    /// The tasks that ended first, of one type and state, in one order. Not one whose idempotency key still lives, or with
    /// events that are not published: it cannot be buried. Reads only.
    Ended {
        /// Declared name of the type.
        task_type: String,
        /// A state in which a task has ended.
        status: TaskStatus,
        /// They ended at least so long ago.
        before: Duration,
        /// Only those that come after this task; none where it is gone.
        after: Option<TaskId>,
        /// At most so many.
        limit: u32,
    },
    /// Deletes all rows of these tasks, their audit too, and leaves a tombstone of each: in one transaction. Returns those of
    /// which that is true now; a task that has changed, has not ended, has events that are not published, or whose
    /// idempotency key still lives, stays whole.
    Bury(Vec<Leaving>),
    /// The oldest tombstones. Reads only.
    Buried {
        /// At most so many.
        limit: u32,
    },
    /// Nothing is left of these: their tombstones go.
    Forget(Vec<TaskId>),
}

/// Questions of sweeps. Each atomic, and none changes a task; a burial removes one.
#[async_trait]
pub trait Upkeep {
    /// What the rows say of these attempts, in one snapshot.
    async fn standing(&self, attempts: &[AttemptRef]) -> Result<Standings, StoreError>;

    /// Takes or keeps the turn to list; `None`: it is not the caller's.
    async fn listing(&self, op: &ListingOp) -> Result<Option<ListingTurn>, StoreError>;

    /// Finds tasks that have ended, buries them, finds and removes tombstones.
    async fn retire(&self, op: &RetireOp) -> Result<Vec<Leaving>, StoreError>;
}
