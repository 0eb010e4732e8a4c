//! The port of a process's spool: results of attempts that the database could not be given, kept on the
//! disk of this machine until it can.

use async_trait::async_trait;
use counterstep_contracts::{Attempt, Direction, Epoch, StepNo, TaskId};
use std::fmt::Debug;

/// Names the result of an attempt. An attempt has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpoolKey {
    /// The task.
    pub task: TaskId,
    /// Its step.
    pub step: StepNo,
    /// Whether it runs or undoes the step.
    pub direction: Direction,
    /// The attempt's number.
    pub attempt: Attempt,
}

/// A result of an attempt that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpoolEntry {
    /// The attempt that it belongs to.
    pub key: SpoolKey,
    /// The epoch under which the attempt ran, and under which its result may be committed.
    pub epoch: Epoch,
    /// The process that ran it, as leases and audit entries name it.
    pub worker: String,
    /// The type of its task, as [`KnownType::key`](super::KnownType::key) writes it. Empty where an older program has put the entry here.
    pub task_type: String,
    /// When it was put here, in milliseconds since 1970-01-01 UTC by this machine.
    pub kept_at: u64,
    /// The result; encrypted where payloads are.
    pub body: String,
}

/// The spool did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpoolError {
    /// The entry would make it larger than it may be. Nothing was written.
    #[error("the spool is full: it may hold {most} bytes")]
    Full {
        /// Its bound.
        most: u64,
    },
    /// Its disk.
    #[error("the spool cannot be used: {0}")]
    Failed(String),
}

/// What a spool holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpoolStats {
    /// Entries.
    pub entries: u64,
    /// The bytes of their bodies.
    pub bytes: u64,
    /// When the oldest was put there, in milliseconds since 1970-01-01 UTC by this machine.
    pub oldest: Option<u64>,
}

/// Keeps results through a restart of the process and of the machine. It belongs to one process at a
/// time, and decides nothing: what becomes of a result, the task's rows say.
#[async_trait]
pub trait Spool: Send + Sync + Debug {
    /// Keeps an entry, over an earlier one of its key. On the disk when this returns.
    async fn put(&self, entry: &SpoolEntry) -> Result<(), SpoolError>;

    /// The keys of all entries, the oldest first.
    async fn keys(&self) -> Result<Vec<SpoolKey>, SpoolError>;

    /// An entry; `None`: there is none.
    async fn get(&self, key: &SpoolKey) -> Result<Option<SpoolEntry>, SpoolError>;

    /// Removes an entry, if it is there.
    async fn remove(&self, key: &SpoolKey) -> Result<(), SpoolError>;

    /// What it holds. Answered from memory.
    fn stats(&self) -> SpoolStats;
}
