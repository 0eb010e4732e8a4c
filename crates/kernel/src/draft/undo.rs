//! What the owner of a lease writes down while the task is undone.

use super::{Draft, Note};
use crate::change::transition::{AttemptWrite, ObjectsFate};
use crate::context::Execution;
use crate::error::{ErrorClass, StepError};
use crate::plan;
use crate::record::{Failure, StepFailure, UndoGoal};
use crate::saga::{Illegal, LifecycleEvent, StepEvent};
use counterstep_contracts::{Direction, Outcome, StepStatus, UndoDecl};
use serde_json::json;
use std::time::Duration;

impl Draft {
    /// Starts the next undo attempt of a step, and records the waivers that it passes on its way
    /// back.
    ///
    /// # Errors
    /// As the judge says.
    pub fn start_undo(&mut self, at: usize, sweep_after: Duration) -> Result<Execution, Illegal> {
        self.pass_waivers(at)?;
        let attempt = self.step(at).undo_attempts.next();
        self.apply(StepEvent::UndoStarted.at(at), Note::attempt(attempt))?;
        Ok(self.open_attempt(at, Direction::Undo, attempt, sweep_after))
    }

    /// A step that is being undone already passed them when its undo started.
    pub(super) fn pass_waivers(&mut self, at: usize) -> Result<(), Illegal> {
        if self.step(at).status == StepStatus::Compensating {
            return Ok(());
        }
        self.record_waivers()
    }

    pub(super) fn record_waivers(&mut self) -> Result<(), Illegal> {
        for at in plan::waived_now(self.decl(), &self.record().steps) {
            let UndoDecl::Waived { reason } = self.decl().steps[at].undo else {
                continue;
            };
            self.apply(
                StepEvent::UndoWaived.at(at),
                Note::default().with(json!({"reason": reason})),
            )?;
        }
        Ok(())
    }

    /// The step is undone.
    ///
    /// # Errors
    /// As the judge says.
    pub fn undo_succeeded(&mut self, at: usize, stored: bool) -> Result<(), Illegal> {
        self.apply(
            StepEvent::UndoSucceeded.at(at),
            Note::attempt(self.step(at).undo_attempts),
        )?;
        self.close_attempt(
            at,
            Direction::Undo,
            Outcome::Succeeded,
            None,
            if stored {
                ObjectsFate::Nothing
            } else {
                ObjectsFate::None
            },
        );
        // What the step's attempts kept is no output any more: what the undo left of it is open to
        // the sweep.
        let step = self.step(at).no;
        self.attempts
            .push(&mut self.record, AttemptWrite::Release { step });
        self.task_mut().recovery_attempts = 0;
        Ok(())
    }

    /// The undo attempt failed; another one follows after `delay`.
    ///
    /// # Errors
    /// As the judge says.
    pub fn undo_retries(
        &mut self,
        at: usize,
        error: &StepError,
        delay: Duration,
    ) -> Result<(), Illegal> {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let note = Note::attempt(self.step(at).undo_attempts).with(
            json!({"error": error.message, "class": error.class.as_str(), "delay_ms": delay_ms}),
        );
        self.apply(StepEvent::UndoRetries.at(at), note)?;
        self.close_attempt(
            at,
            Direction::Undo,
            Outcome::Failed,
            Some(error),
            ObjectsFate::Nothing,
        );
        let due = self.record().now.later(delay);
        let row = self.step_mut(at);
        row.undo_retries_used += 1;
        // In the row: a task that is woken in between is not to be early.
        row.due_at = Some(due);
        Ok(())
    }

    /// It is unknown how far the undo attempt came.
    ///
    /// # Errors
    /// As the judge says.
    pub fn undo_in_doubt(&mut self, at: usize, why: &str) -> Result<(), Illegal> {
        self.apply(
            StepEvent::UndoInDoubt.at(at),
            Note::attempt(self.step(at).undo_attempts).with(json!({"why": why})),
        )?;
        self.close_attempt(
            at,
            Direction::Undo,
            Outcome::InDoubt,
            None,
            ObjectsFate::Nothing,
        );
        Ok(())
    }

    /// The step's undo has given up. Everything a person needs to settle it goes into the audit.
    ///
    /// # Errors
    /// As the judge says.
    pub fn undo_failed(&mut self, at: usize, error: &StepError) -> Result<(), Illegal> {
        let attempts = self.step(at).undo_attempts;
        let note = Note::attempt(attempts).with(json!({
            "error": error.message,
            "class": error.class.as_str(),
            "attempts": attempts,
            "trace": self.record().task.traceparent,
            "trace_id": self.record().task.trace_id(),
            "backtrace": error.backtrace,
        }));
        self.apply(StepEvent::UndoFailed.at(at), note)?;
        self.close_attempt(
            at,
            Direction::Undo,
            Outcome::Failed,
            Some(error),
            ObjectsFate::Nothing,
        );
        Ok(())
    }

    /// Nothing that could be undone is left: the task comes to rest.
    ///
    /// # Errors
    /// As the judge says.
    pub fn finish_undo(&mut self) -> Result<(), Illegal> {
        let failed: Vec<_> = self
            .record()
            .steps
            .iter()
            .filter(|row| row.status == StepStatus::CompensationFailed)
            .collect();
        if let Some(first) = failed.first() {
            // Their own changes may lie far back: the alert of this one names them.
            let steps: Vec<_> = failed.iter().map(|row| row.name.as_str()).collect();
            let note = Note::default().with(
                json!({"steps": steps, "error": first.error.as_ref().map(ToString::to_string)}),
            );
            self.apply(LifecycleEvent::UndoGaveUp, note)?;
            self.block_by_undo();
            return Ok(());
        }
        self.record_waivers()?;
        let cancelled = self.record().task.goal == Some(UndoGoal::Cancelled);
        self.apply(LifecycleEvent::UndoFinished { cancelled }, Note::default())
    }

    /// The first undo that has given up, and that no person has settled, blocks the task.
    pub(super) fn block_by_undo(&mut self) {
        let mut steps = self.record().steps.iter();
        let Some(row) = steps.find(|row| row.status == StepStatus::CompensationFailed) else {
            return;
        };
        let error = row.error.clone().unwrap_or_else(|| StepFailure {
            class: ErrorClass::Permanent.as_str().to_owned(),
            message: "its undo gave up".to_owned(),
            origin: None,
        });
        let by = error.of_task(&row.name, Direction::Undo);
        self.block(by);
    }

    /// This blocks the task, which is parked; why it is undone stays beside it.
    pub(super) fn block(&mut self, by: Failure) {
        let failure = &mut self.task_mut().failure;
        let turned = failure.get_or_insert_with(|| Failure {
            class: ErrorClass::Cancelled.as_str().to_owned(),
            message: "it was cancelled".to_owned(),
            side: Some(Direction::Forward),
            ..Failure::default()
        });
        turned.blocked_by = Some(Box::new(by));
    }

    /// Nothing blocks the task any more: it goes on. That it was cancelled is no failure of its own.
    pub(super) fn unblock(&mut self) {
        let failure = &mut self.task_mut().failure;
        if let Some(turned) = failure {
            turned.blocked_by = None;
        }
        let cancelled = ErrorClass::Cancelled.as_str();
        failure.take_if(|turned| turned.step.is_none() && turned.class == cancelled);
    }

    /// Gives the task back while nothing of it can be undone. `left`: until it looks again unasked.
    ///
    /// # Errors
    /// As the judge says.
    pub fn rest_in_undo(&mut self, left: Duration, why: &str) -> Result<(), Illegal> {
        self.apply(
            LifecycleEvent::HandedOver,
            Note::default().with(json!({"why": why})),
        )?;
        self.task.sleeps(left);
        Ok(())
    }
}
