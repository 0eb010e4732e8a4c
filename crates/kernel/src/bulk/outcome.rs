//! A task that an operation has chosen, and what became of it. Must not know how either is written.

use crate::audit::one_line;
use crate::ports::TaskLine;
use counterstep_contracts::bulk::BulkAction;
use counterstep_contracts::{Rev, TaskId, TaskStatus};
use serde::{Deserialize, Serialize};

/// Maximum characters of a reason.
const LONGEST_REASON: usize = 300;

/// A task of a slice, and the revision at which it was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chosen {
    pub(super) task: TaskId,
    pub(super) rev: Rev,
    /// It is to go on, and not to be undone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) forward: bool,
}

impl Chosen {
    pub(super) fn of(line: &TaskLine, action: BulkAction) -> Self {
        let forward = match action {
            BulkAction::Redrive => line.status == TaskStatus::DeadLettered,
            BulkAction::RunAgain => true,
            BulkAction::Resolve | BulkAction::Cancel => false,
        };
        Self {
            task: line.task,
            rev: line.rev,
            forward,
        }
    }
}

/// What became of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was carried out, where it runs again by a new task.
    Done {
        new_task: Option<TaskId>,
    },
    /// Another writer has changed it.
    Skipped,
    /// A new task has run it again before, which is none of this operation.
    AlreadyRunAgain,
    /// The operation had cancelled it with a task below it, before it was chosen itself, and counted it then.
    Counted,
    /// This process cannot decide on it, and others may: why.
    Undecided(String),
    Failed(String),
}

impl Outcome {
    pub(super) const DONE: Self = Self::Done { new_task: None };

    /// Why this process has not decided.
    pub(super) fn undecided(&self) -> Option<&str> {
        match self {
            Self::Undecided(why) => Some(why),
            Self::Done { .. }
            | Self::Skipped
            | Self::AlreadyRunAgain
            | Self::Counted
            | Self::Failed(_) => None,
        }
    }

    /// No other process has come that could decide.
    pub(super) fn give_up(&mut self) {
        if let Self::Undecided(why) = self {
            *self = Self::Failed(std::mem::take(why));
        }
    }
}

/// A reason as it is kept: one line, and not a long one.
pub(super) fn short(reason: &str) -> String {
    one_line(reason).chars().take(LONGEST_REASON).collect()
}
