//! How far the running steps of a task have come: what a turn tells, and how a step of it is found
//! again. A hint, never a state.

use crate::ids::{Attempt, Epoch, TaskId};
use crate::state::Direction;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the steps that one turn runs have said last. Kept under one key, and sent to all
/// listeners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskProgress {
    /// Id of the task.
    pub task: TaskId,
    /// The epoch of the turn. Of another epoch than the row's, it says nothing.
    pub epoch: Epoch,
    /// Grows with each telling of the turn.
    pub seq: u64,
    /// By the names of steps.
    pub steps: BTreeMap<String, AttemptProgress>,
}

/// What one attempt has said last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptProgress {
    /// Run or undo.
    pub direction: Direction,
    /// Which of them. Of another attempt than the row's, it says nothing.
    pub attempt: Attempt,
    /// How far it is, in units of the step's own.
    pub done: u64,
    /// Out of how much; 0 where the step does not know.
    pub total: u64,
    /// What it is at, where it says so: one line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it said so, RFC 3339.
    pub at: String,
}

impl AttemptProgress {
    /// 0 to 100, rounded down. `None` where the total is not known.
    #[must_use]
    pub fn percent(&self) -> Option<u8> {
        let parts = u128::from(self.done.min(self.total)) * 100;
        u8::try_from(parts.checked_div(u128::from(self.total))?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_rounded_down_and_end_at_a_hundred() {
        let of = |done, total| {
            let at = String::new();
            AttemptProgress {
                direction: Direction::Forward,
                attempt: Attempt(1),
                done,
                total,
                message: None,
                at,
            }
            .percent()
        };
        assert_eq!(of(0, 0), None);
        assert_eq!(
            (of(0, 3), of(2, 3), of(3, 3), of(4, 3)),
            (Some(0), Some(66), Some(100), Some(100))
        );
        assert_eq!(
            (of(u64::MAX, u64::MAX), of(u64::MAX - 1, u64::MAX)),
            (Some(100), Some(99))
        );
    }
}
