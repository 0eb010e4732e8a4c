//! Tasks that other tasks submit: what a child knows of its parent, and how both are shown.

use crate::ids::{StepNo, TaskId};
use crate::state::TaskStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a task knows of the task that submitted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentRef {
    /// The parent.
    pub task: TaskId,
    /// The parent's step that waits for it.
    pub step: StepNo,
    /// Its place among the tasks of that step, from 0.
    pub no: u32,
    /// How many tasks stand above it.
    pub depth: u32,
}

/// No task has more tasks above it: types that await each other would never come to an end.
pub const DEEPEST: u32 = 16;

/// Tasks of one step, at most.
pub const MOST_CHILDREN: usize = 10_000;

/// The parent of a task, as clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParentView {
    /// The parent.
    pub task_id: TaskId,
    /// Number of the parent's step that waits for it. Its name stands in the parent's `steps`: a
    /// child does not read its parent.
    pub step: StepNo,
    /// Its place among the tasks of that step, from 0.
    pub place: u32,
}

impl From<ParentRef> for ParentView {
    fn from(parent: ParentRef) -> Self {
        Self {
            task_id: parent.task,
            step: parent.step,
            place: parent.no,
        }
    }
}

/// How the tasks stand that a step has submitted so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepChildren {
    /// Name of the step.
    pub step: String,
    /// How many of them are in each state. A state that none is in is left out.
    pub by_status: BTreeMap<TaskStatus, u32>,
}
