//! What a process does and what it did last, as its row in the worker registry has it. Nothing is ever decided by it.

use counterstep_contracts::workers::TurnOutcome;
use counterstep_contracts::{QueueName, TaskId};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Duration;

/// Turns that have ended which a process remembers.
pub const RECENT_TURNS: usize = 100;

/// What a process does, and what it did last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Activity {
    /// Bytes of memory that it holds; `None`: its system has no such figure.
    pub memory: Option<u64>,
    /// The running tasks that it has claimed; of many those that [`running`](super::WorkerRow::running) names.
    pub turns: Vec<RunningTurn>,
    /// The last turns that have ended, the last one first; at most [`RECENT_TURNS`].
    pub recent: Vec<EndedTurn>,
    /// What came to queues and left them with changes of this process.
    pub flow: QueueFlow,
}

/// A turn that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningTurn {
    /// Its task.
    pub task: TaskId,
    /// Declared name of the task's type.
    pub task_type: String,
    /// The step that runs; of several the one that has begun last.
    pub step: Option<String>,
    /// How long before the database's now the task was claimed.
    pub ago: Duration,
}

/// A turn that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedTurn {
    /// Its task.
    pub task: TaskId,
    /// Declared name of the task's type.
    pub task_type: String,
    /// How it has ended.
    pub outcome: TurnOutcome,
    /// Attempts of steps and undos that failed in it.
    pub failed_attempts: u32,
    /// From the claim to its end.
    pub took: Duration,
    /// How long before the database's now it ended.
    pub ago: Duration,
}

/// What came to queues and left them within a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueFlow {
    /// Length of that time, which ends now.
    pub window: Duration,
    /// By queue.
    pub queues: BTreeMap<QueueName, TasksMoved>,
}

/// Tasks that came to wait on a queue, and tasks that wait there no more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TasksMoved {
    /// Those that came.
    pub came: u64,
    /// Those that were claimed, or ended without.
    pub left: u64,
}

impl TasksMoved {
    /// One has come.
    pub const CAME: Self = Self { came: 1, left: 0 };
    /// One has left.
    pub const LEFT: Self = Self { came: 0, left: 1 };
}

impl AddAssign for TasksMoved {
    fn add_assign(&mut self, other: Self) {
        self.came += other.came;
        self.left += other.left;
    }
}
