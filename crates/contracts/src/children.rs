//! Tasks that other tasks submit: what a child knows of its parent.

use crate::ids::{StepNo, TaskId};
use serde::{Deserialize, Serialize};

/// What a task knows of the task that submitted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentRef {
    /// The parent.
    pub task: TaskId,
    /// The parent's step that waits for it.
    pub step: StepNo,
    /// Its place among the tasks of that step, from 0.
    pub no: u32,
    /// The task at the top: the parent of the parent, and so on. Until it has ended, its
    /// descendants may have to be undone, and are kept.
    pub root: TaskId,
    /// How many tasks stand above it.
    pub depth: u32,
}

/// No task has more tasks above it: types that await each other would never come to an end.
pub const DEEPEST: u32 = 16;

/// Tasks of one step, at most.
pub const MOST_CHILDREN: usize = 10_000;
