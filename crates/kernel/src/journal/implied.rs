//! What the name of an event implies, so that a row need not say it. Must not judge: an event that
//! does something else says so.

use crate::record::StepRow;
use counterstep_contracts::{Attempt, Direction, StepStatus};

/// What an event implies of its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Implied {
    pub(super) to: StepStatus,
    pub(super) direction: Direction,
    /// It starts the step's next attempt; else it ends the last one with a success.
    pub(super) starts: bool,
}

impl Implied {
    /// `None`: an event of this name implies nothing.
    pub(super) fn by(event: &str) -> Option<Self> {
        let (to, direction, starts) = match event {
            "step_started" => (StepStatus::Running, Direction::Forward, true),
            "step_succeeded" => (StepStatus::Completed, Direction::Forward, false),
            "undo_started" => (StepStatus::Compensating, Direction::Undo, true),
            "undo_succeeded" => (StepStatus::Compensated, Direction::Undo, false),
            _ => return None,
        };
        Some(Self {
            to,
            direction,
            starts,
        })
    }

    /// The attempt, of a step as it was before the event.
    pub(super) fn attempt(self, step: &StepRow) -> Attempt {
        let last = step.last_attempt(self.direction);
        if self.starts { last.next() } else { last }
    }
}
