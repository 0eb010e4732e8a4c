//! What a probe has found out about an attempt in doubt, or failed to find out, in both directions.

use super::forward::millis;
use super::{Draft, Note};
use crate::error::StepError;
use crate::record::{ProbeRow, StepFailure};
use crate::saga::{Illegal, StepEvent};
use counterstep_contracts::StepStatus;
use serde_json::{Value, json};
use std::time::Duration;

impl Draft {
    /// A probe found the output of an attempt that was in doubt.
    ///
    /// # Errors
    /// As the judge says.
    pub fn step_settled_done(&mut self, at: usize, output: Value) -> Result<(), Illegal> {
        self.apply(
            StepEvent::Settled { done: true }.at(at),
            Note::attempt(self.step(at).attempts),
        )?;
        self.keep_what_it_names(at, &output);
        self.step_mut(at).output = Some(output);
        self.task_mut().recovery_attempts = 0;
        Ok(())
    }

    /// A probe found out that the attempt in doubt had not taken effect: there is nothing to undo.
    ///
    /// # Errors
    /// As the judge says.
    pub fn step_settled_not_done(&mut self, at: usize) -> Result<(), Illegal> {
        self.record_waivers()?;
        self.apply(
            StepEvent::Settled { done: false }.at(at),
            Note::attempt(self.step(at).attempts),
        )?;
        self.task_mut().recovery_attempts = 0;
        Ok(())
    }

    /// The probe failed; it is tried again after `delay`.
    ///
    /// # Errors
    /// As the judge says.
    pub fn probe_retries(
        &mut self,
        at: usize,
        error: &StepError,
        delay: Duration,
    ) -> Result<(), Illegal> {
        let note = Note::attempt(self.step(at).attempts).with(
            json!({"error": error.message, "class": error.class.as_str(), "delay_ms": millis(delay)}),
        );
        self.apply(StepEvent::ProbeRetries.at(at), note)?;
        // In the row: the next try may be that of another host.
        let due = self.record().now.later(delay);
        let row = self.step_mut(at);
        let used = row.probe.map_or(0, |probe| probe.retries_used);
        row.probe = Some(ProbeRow {
            retries_used: used + 1,
            gave_up: false,
        });
        row.error = Some(StepFailure::from(error));
        row.due_at = Some(due);
        Ok(())
    }

    /// The probe failed, and is not tried again: it stays unknown how far the attempt came.
    ///
    /// # Errors
    /// As the judge says.
    pub fn probe_failed(&mut self, at: usize, error: &StepError) -> Result<(), Illegal> {
        let note = Note::attempt(self.step(at).attempts).with(
            json!({"error": error.message, "class": error.class.as_str(), "backtrace": error.backtrace}),
        );
        self.apply(StepEvent::ProbeFailed.at(at), note)?;
        let row = self.step_mut(at);
        let retries_used = row.probe.map_or(0, |probe| probe.retries_used);
        row.probe = Some(ProbeRow {
            retries_used,
            gave_up: true,
        });
        let mut failure = StepFailure::from(error);
        failure.message = format!(
            "unknown whether it happened: its probe gave up: {}",
            error.message
        );
        row.error = Some(failure);
        row.due_at = None;
        Ok(())
    }

    /// Probes of steps in doubt begin anew, with all their retries.
    pub(super) fn probe_anew(&mut self) {
        for at in self.steps_at(StepStatus::InDoubt) {
            if self.step(at).probe.is_some() {
                let row = self.step_mut(at);
                (row.probe, row.due_at) = (None, None);
            }
        }
    }
}
