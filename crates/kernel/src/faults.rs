//! Planted faults: for tests, and for the demonstrations of the command line. Nothing plants one by itself.

use crate::context::Execution;
use counterstep_contracts::{Attempt, Direction};

/// What is to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Permanent error before the step's code runs.
    FailBefore,
    /// Permanent error after the step's code has done its work, so that there is something to undo.
    FailAfter,
    /// Transient error after the step's code has done its work.
    FailTransiently,
    /// Panic before the step's code runs.
    Panic,
    /// The step does its work and then never returns; it ignores its cancel token.
    Hang,
}

/// A planted fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// At this step.
    pub step: String,
    /// Running it, or undoing it.
    pub direction: Direction,
    /// On this attempt only; `None`: on each.
    pub attempt: Option<Attempt>,
    /// What.
    pub kind: FaultKind,
}

impl Fault {
    /// On each attempt of a step.
    #[must_use]
    pub fn at(step: impl Into<String>, kind: FaultKind) -> Self {
        Self { step: step.into(), direction: Direction::Forward, attempt: None, kind }
    }

    /// On this attempt only.
    #[must_use]
    pub const fn on_attempt(mut self, attempt: i32) -> Self {
        self.attempt = Some(Attempt(attempt));
        self
    }

    /// While undoing.
    #[must_use]
    pub const fn in_undo(mut self) -> Self {
        self.direction = Direction::Undo;
        self
    }

    /// Whether it strikes this execution.
    #[must_use]
    pub fn strikes(&self, execution: &Execution) -> bool {
        self.step == execution.step
            && self.direction == execution.direction
            && self.attempt.is_none_or(|attempt| attempt == execution.attempt)
    }
}
