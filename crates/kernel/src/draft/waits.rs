//! What is written down of steps that wait, of the signals that they wait for, and of fallbacks. A
//! wait runs no code, so it has no attempts: its audit entries are its whole past.

use super::{Draft, Note};
use crate::change::transition::{ObjectsFate, Time};
use crate::error::StepError;
use crate::record::{DbTime, SignalRow, StepFailure};
use crate::saga::{Illegal, StepEvent};
use crate::times::rfc3339;
use counterstep_contracts::{Direction, Outcome, StepStatus, TaskStatus};
use serde_json::{Value, json};
use std::time::Duration;

impl Draft {
    /// The step waits until `due`, or for its signal.
    ///
    /// # Errors
    /// As the judge says.
    pub fn wait_begins(&mut self, at: usize, due: DbTime) -> Result<(), Illegal> {
        self.apply(StepEvent::Started.at(at), Note::default())?;
        self.apply(
            StepEvent::Waits.at(at),
            Note::default().with(json!({"due_at": rfc3339(due)})),
        )?;
        self.step_mut(at).due_at = Some(due);
        Ok(())
    }

    /// What the step waited for is there.
    ///
    /// # Errors
    /// As the judge says.
    pub fn wait_is_over(&mut self, at: usize, output: Value) -> Result<(), Illegal> {
        self.apply(StepEvent::Started.at(at), Note::default())?;
        self.apply(StepEvent::Succeeded.at(at), Note::default())?;
        let row = self.step_mut(at);
        row.output = Some(output);
        row.error = None;
        self.task_mut().recovery_attempts = 0;
        Ok(())
    }

    /// What the step waited for did not come, or its function says nothing that could be waited
    /// for. The caller decides whether a fallback follows.
    ///
    /// # Errors
    /// As the judge says.
    pub fn wait_failed(
        &mut self,
        at: usize,
        error: StepFailure,
        falls_back: bool,
    ) -> Result<(), Illegal> {
        self.apply(StepEvent::Started.at(at), Note::default())?;
        let event = if falls_back {
            StepEvent::FallsBack.at(at)
        } else {
            StepEvent::Failed.at(at)
        };
        self.apply(
            event,
            Note::default().with(json!({"error": error.message, "class": error.class})),
        )?;
        let row = self.step_mut(at);
        row.error = Some(error);
        row.in_fallback = falls_back;
        Ok(())
    }

    /// The attempt failed and no other of the step's own will follow; those of its fallback do,
    /// with retries of their own.
    ///
    /// # Errors
    /// As the judge says.
    pub fn step_falls_back(&mut self, at: usize, error: &StepError) -> Result<(), Illegal> {
        let note = Note::attempt(self.step(at).attempts)
            .with(json!({"error": error.message, "class": error.class.as_str(), "backtrace": error.backtrace}));
        self.apply(StepEvent::FallsBack.at(at), note)?;
        self.close_attempt(
            at,
            Direction::Forward,
            Outcome::Failed,
            Some(error),
            ObjectsFate::Nothing,
        );
        let row = self.step_mut(at);
        (row.in_fallback, row.retries_used) = (true, 0);
        Ok(())
    }

    /// Keeps a signal for its step, and wakes the task where it sleeps for it.
    ///
    /// # Errors
    /// As the judge says.
    // No edge of the task of its own: it is due from now on, and the host that claims it finds the
    // signal. A lost message only delays, because a due task is also found without one.
    pub fn receive_signal(&mut self, at: usize, signal: SignalRow) -> Result<(), Illegal> {
        self.apply(
            StepEvent::SignalReceived.at(at),
            Note::default().with(json!({"body": signal.body})),
        )?;
        let row = self.step_mut(at);
        row.signal = Some(signal);
        let awaited = row.status == StepStatus::Waiting;
        if awaited && self.status() == TaskStatus::Waiting {
            self.task.due = Time::In(Duration::ZERO);
            self.dispatch_to(self.record().task.host);
        }
        Ok(())
    }
}
