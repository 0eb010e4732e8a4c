//! What the store is asked for about the places among the tasks of a key.

use crate::record::DbTime;
use counterstep_contracts::{TaskId, TaskStatus, WaitReason};

/// A task that is counted with others of its key, and not at rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceRow {
    /// Concurrency key of the task.
    pub key: String,
    /// Id of the task.
    pub task: TaskId,
    /// The number of the place that it holds; `None`: it holds none.
    pub no: Option<u32>,
    /// When it was submitted. Of the newest: behind those that took their places before its submission was committed.
    pub since: DbTime,
    /// State of the task.
    pub status: TaskStatus,
    /// What it waits for.
    pub waiting: Option<WaitReason>,
    /// A cancel was accepted.
    pub cancel_requested: bool,
}

/// Which of them to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceQuery {
    /// Those of a key that hold a place, by its number; behind them those that wait for one: that are not
    /// started, or sleep for it.
    Of {
        /// The key.
        key: String,
        /// Which of those that wait come first.
        first: First,
        /// Maximum number of those that wait.
        waiting: u32,
    },
    /// These tasks, as far as they are counted.
    Tasks(Vec<TaskId>),
}

/// Which submissions come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// The oldest.
    Oldest,
    /// The newest.
    Newest,
}

/// How many tasks of a key there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceCount {
    /// The key.
    pub key: String,
    /// Number of tasks that hold a place.
    pub held: u32,
    /// Number of tasks that hold none.
    pub waiting: u32,
    /// Number of these that sleep until there is one.
    pub asleep: u32,
}
