//! Where attempts start and end, in both directions.

use super::Draft;
use crate::change::transition::{AttemptWrite, ObjectsFate};
use crate::context::Execution;
use crate::error::StepError;
use crate::record::StepFailure;
use counterstep_contracts::{Attempt, Direction, Outcome};
use std::time::Duration;

impl Draft {
    /// The execution that an attempt of a step would be now.
    #[must_use]
    pub fn execution(&self, at: usize, direction: Direction, attempt: Attempt) -> Execution {
        let task = &self.record().task;
        Execution {
            tenant: task.tenant.clone(),
            task: task.id,
            step: self.step(at).name.clone(),
            direction,
            attempt,
            epoch: task.epoch,
        }
    }

    pub(super) fn open_attempt(
        &mut self,
        at: usize,
        direction: Direction,
        attempt: Attempt,
        sweep_after: Duration,
    ) -> Execution {
        let row = self.step_mut(at);
        match direction {
            Direction::Forward => row.attempts = attempt,
            Direction::Undo => row.undo_attempts = attempt,
        }
        row.attempt_open = true;
        // What was in doubt before it is not any more.
        row.probe = None;
        let step = row.no;
        let execution = self.execution(at, direction, attempt);
        let epoch = execution.epoch;
        self.attempts.push(
            &mut self.record,
            AttemptWrite::Start {
                step,
                direction,
                attempt,
                epoch,
                sweep_after,
            },
        );
        execution
    }

    pub(super) fn close_attempt(
        &mut self,
        at: usize,
        direction: Direction,
        outcome: Outcome,
        error: Option<&StepError>,
        kept: ObjectsFate,
    ) {
        let row = self.step_mut(at);
        row.attempt_open = false;
        row.error = error.map(StepFailure::from);
        let (step, attempt, error) = (row.no, row.last_attempt(direction), row.error.clone());
        self.attempts.push(
            &mut self.record,
            AttemptWrite::End {
                step,
                direction,
                attempt,
                outcome,
                error,
                kept,
            },
        );
    }
}
