//! What sweeps ask of the store beyond the tasks themselves: which of them to look at, the files of
//! requests that have no task, and those that have ended.

use super::errors::StoreError;
use crate::record::DbTime;
use async_trait::async_trait;
use counterstep_contracts::{Rev, TaskId, TaskStatus, Tenant};
use std::time::Duration;

/// A receive: files of a request that has no task yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receive {
    /// The id that its task will have.
    pub task: TaskId,
    /// Whose.
    pub tenant: Tenant,
    /// A sweep has condemned it, or its request came to nothing: it never becomes a task.
    pub is_condemned: bool,
    /// From then on a sweep may condemn it.
    pub sweep_at: DbTime,
}

/// Receives, and the time at which they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receives {
    /// The database's clock in the same query.
    pub now: DbTime,
    /// In the order of their time.
    pub rows: Vec<Receive>,
}

/// Work on the rows of receives. A receive that became a task has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiveOp {
    /// The oldest whose time has come. Reads only.
    Overdue {
        /// Maximum number of them.
        limit: u32,
    },
    /// Those of these tasks, whatever their time. Reads only.
    Of(Vec<TaskId>),
    /// Those of these whose time has come: none of them can become a task from now on. Returns
    /// them: only their files may be deleted.
    Condemn(Vec<TaskId>),
    /// The files of these condemned ones are deleted: their rows go.
    Swept(Vec<TaskId>),
}

/// A task on its way out of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedTask {
    /// Which.
    pub task: TaskId,
    /// Whose.
    pub tenant: Tenant,
    /// At this revision; 0 of a tombstone.
    pub rev: Rev,
}

/// Work on tasks that have ended long enough ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PurgeOp {
    /// The tasks that ended first, of one type and state, in one order. Not one whose idempotency
    /// key still lives, or with events that are not published: it cannot be purged. Reads only.
    Ended {
        /// Declared name of the type.
        task_type: String,
        /// A state in which a task has ended.
        status: TaskStatus,
        /// They ended at least so long ago.
        before: Duration,
        /// Only those that come after this task; none where it is gone.
        after: Option<TaskId>,
        /// Maximum number of them.
        limit: u32,
    },
    /// Deletes all rows of these tasks, their audit too, and leaves a tombstone of each: in one
    /// transaction. Returns those of which that is true now; a task that has changed, has not
    /// ended, has events that are not published, or whose idempotency key still lives, stays whole.
    Purge(Vec<EndedTask>),
    /// The oldest tombstones. Reads only.
    OldestTombstones {
        /// Maximum number of them.
        limit: u32,
    },
    /// The tombstones of these tasks. Reads only.
    TombstonesOf(Vec<TaskId>),
    /// Nothing is left of these: their tombstones go. Also of none, at the end of each pass: what was deleted leaves the log of an SQLite
    /// file then, as soon as no other connection reads from it.
    Forget(Vec<TaskId>),
}

/// Work on the time at which a sweep looks at a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SweepOp {
    /// Tasks whose time has come, the longest due first. Reads only.
    Due {
        /// Maximum number of them.
        limit: u32,
    },
    /// Looked at again so long from now, as far as they can be locked at once: no sweep can read
    /// them. Their revision stays.
    PutOff {
        /// Which.
        tasks: Vec<TaskId>,
        /// For how long.
        by: Duration,
    },
}

/// Questions of sweeps. Each atomic, and none changes what a task is; a purge removes one.
#[async_trait]
pub trait Upkeep {
    /// Finds tasks for a sweep, or puts them off. Returns them.
    async fn sweeps(&self, op: &SweepOp) -> Result<Vec<TaskId>, StoreError>;

    /// Finds, condemns or removes receives.
    async fn receives(&self, op: &ReceiveOp) -> Result<Receives, StoreError>;

    /// Finds tasks that have ended, purges them, finds and removes tombstones.
    async fn purge(&self, op: &PurgeOp) -> Result<Vec<EndedTask>, StoreError>;
}
