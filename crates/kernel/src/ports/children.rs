//! What the store is asked for about tasks that other tasks have submitted.

use crate::record::Failure;
use counterstep_contracts::{StepNo, TaskId, TaskStatus, Tenant};

/// How many tasks of a step are in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildCount {
    /// The step that has submitted them.
    pub step: StepNo,
    /// Their state.
    pub status: TaskStatus,
    /// Number of tasks.
    pub tasks: u32,
    /// One of them ended with effects that were not undone.
    pub residue: bool,
}

/// Which of the tasks that a task has submitted to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildQuery {
    /// The task.
    pub parent: TaskId,
    /// Of this step only.
    pub step: Option<StepNo>,
    /// In one of these states only; none: in any.
    pub statuses: Vec<TaskStatus>,
    /// Behind this step and number.
    pub after: Option<(StepNo, u32)>,
    /// Maximum number of them.
    pub limit: u32,
}

/// A task that another one has submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildLine {
    /// The step that has submitted it.
    pub step: StepNo,
    /// Its number among those of the step: a
    /// [`child_no`](counterstep_contracts::children::child_no).
    pub no: u32,
    /// Id of the task.
    pub task: TaskId,
    /// Declared name of its type.
    pub task_type: String,
    /// State of the task.
    pub status: TaskStatus,
    /// Why it did not complete.
    pub failure: Option<Failure>,
}

/// Tasks that stand in a relation to others.
#[derive(Debug, Clone, Copy)]
pub enum Relatives<'a> {
    /// The tasks that run a task of this tenant again, the newest first, at most [`MOST_SUCCESSORS`](super::MOST_SUCCESSORS).
    SuccessorsOf(&'a Tenant, TaskId),
    /// The tasks above these: those that have submitted them, and so on. Each once, and before those below it.
    Above(&'a [TaskId]),
}
