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
    /// Its number among the tasks of that step, a [`child_no`].
    pub no: u32,
    /// How many tasks stand above it.
    pub depth: u32,
}

/// Maximum number of levels above a task: types that await each other would never end.
pub const DEEPEST: u32 = 16;

/// Maximum number of tasks of one step, without those that replace others.
pub const MOST_CHILDREN: usize = PLACES as usize;

const PLACES: u32 = 10_000;

/// The number of a task among those of its step: its place in the step's list, from 0, and above that
/// how often the task that submitted it was retried by then. Of a place the highest counts.
#[must_use]
pub const fn child_no(generation: u32, place: u32) -> u32 {
    generation.saturating_mul(PLACES).saturating_add(place)
}

/// The place of the task with this number.
#[must_use]
pub const fn place_of(no: u32) -> u32 {
    no % PLACES
}

/// How often the task that submitted the one with this number was retried by then.
#[must_use]
pub const fn generation_of(no: u32) -> u32 {
    no / PLACES
}

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
            place: place_of(parent.no),
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
