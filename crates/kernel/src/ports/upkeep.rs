//! What sweeps ask of the store beyond the tasks themselves: the files of requests that have no task, and the removal
//! of tasks that have ended.

use super::errors::StoreError;
use super::finding::TaskHead;
use crate::record::DbTime;
use async_trait::async_trait;
use counterstep_contracts::{Rev, TaskId, Tenant};

/// A receive: files of a request that has no task yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receive {
    /// The id that its task will have.
    pub task: TaskId,
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// A sweep has condemned it, or its request failed: it never becomes a task.
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
    /// Id of the task.
    pub task: TaskId,
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// At this revision; 0 of a tombstone.
    pub rev: Rev,
}

impl From<TaskHead> for EndedTask {
    fn from(head: TaskHead) -> Self {
        Self {
            task: head.task,
            tenant: head.tenant,
            rev: head.rev,
        }
    }
}

/// Work on tasks that have ended long enough ago.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PurgeOp {
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

/// Questions of sweeps. Each atomic, and none changes what a task is; a purge removes one.
#[async_trait]
pub trait Upkeep {
    /// Finds, condemns or removes receives.
    async fn receives(&self, op: &ReceiveOp) -> Result<Receives, StoreError>;

    /// Purges tasks that have ended, finds and removes tombstones.
    async fn purge(&self, op: &PurgeOp) -> Result<Vec<EndedTask>, StoreError>;
}
