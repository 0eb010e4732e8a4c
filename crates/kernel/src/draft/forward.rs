//! What the owner of a lease writes down while the task goes forward.

use super::{Draft, Note};
use crate::change::transition::{AttemptWrite, LeaseChange, ObjectsFate};
use crate::context::Execution;
use crate::error::{ErrorClass, StepError};
use crate::keys::ObjectKey;
use crate::plan::{self, stage_of};
use crate::record::{Failure, UndoGoal};
use crate::saga::{Illegal, LifecycleEvent, StepEvent};
use counterstep_contracts::{
    Direction, Host, OnExhausted, Outcome, StepStatus, TaskStatus, WaitReason,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

impl Draft {
    /// Starts the next attempt of a step. `sweep_after`: from then on its objects are orphans,
    /// unless it succeeded.
    ///
    /// # Errors
    /// As the judge says.
    pub fn start_step(&mut self, at: usize, sweep_after: Duration) -> Result<Execution, Illegal> {
        let attempt = self.step(at).attempts.next();
        self.apply(StepEvent::Started.at(at), Note::attempt(attempt))?;
        Ok(self.open_attempt(at, Direction::Forward, attempt, sweep_after))
    }

    /// Which of the task's requests the step is given where it starts now: the last one. A wait that
    /// goes on keeps the one under which it began, a fallback that of the step that gave up, and a
    /// step that has completed the one by which it has: its undo takes back what was done by that.
    pub(crate) fn request_at_start(&self, at: usize) -> u32 {
        let row = self.step(at);
        let sleeps = row.status == StepStatus::Waiting && row.due_at.is_some();
        let waits = sleeps && plan::waits(&self.decl().steps[at], row).is_some();
        if waits || row.in_fallback || row.keeps_request {
            return row.request;
        }
        let earlier = self.record().task.earlier_requests.len();
        u32::try_from(earlier).unwrap_or(u32::MAX)
    }

    /// Starts an attempt that makes lost scratch again; the step stays Completed.
    ///
    /// # Errors
    /// As the judge says.
    pub fn start_rebuild(
        &mut self,
        at: usize,
        sweep_after: Duration,
    ) -> Result<Execution, Illegal> {
        let attempt = self.step(at).attempts.next();
        self.apply(StepEvent::Rebuilt.at(at), Note::attempt(attempt))?;
        Ok(self.open_attempt(at, Direction::Forward, attempt, sweep_after))
    }

    /// Ends an attempt that made lost scratch again. The output that counts stays the committed
    /// one, so objects that this attempt has stored belong to nothing.
    pub fn end_rebuild(&mut self, at: usize, outcome: Outcome, error: Option<&StepError>) {
        self.close_attempt(at, Direction::Forward, outcome, error, ObjectsFate::Nothing);
    }

    /// The step's output is the one that counts from now on.
    ///
    /// # Errors
    /// As the judge says.
    pub fn step_succeeded(
        &mut self,
        at: usize,
        output: Value,
        stored: bool,
    ) -> Result<(), Illegal> {
        self.apply(
            StepEvent::Succeeded.at(at),
            Note::attempt(self.step(at).attempts),
        )?;
        self.close_attempt(
            at,
            Direction::Forward,
            Outcome::Succeeded,
            None,
            ObjectsFate::when(stored),
        );
        self.step_mut(at).output = Some(output);
        // Work that is done again, because its scratch was lost with the last host, is no progress:
        // otherwise a step that kills its host after it would be recovered indefinitely.
        let (stage, started) = (stage_of(self.decl(), at), self.step(at).started_seq);
        let rows = self.record().steps.iter().enumerate();
        let mut later = rows.filter(|(other, _)| !stage.contains(other));
        if !later.any(|(other, row)| other > at && row.started_seq > started) {
            self.task_mut().recovery_attempts = 0;
        }
        Ok(())
    }

    /// The attempt failed; another one follows after `delay`.
    ///
    /// # Errors
    /// As the judge says.
    pub fn step_retries(
        &mut self,
        at: usize,
        error: &StepError,
        delay: Duration,
    ) -> Result<(), Illegal> {
        let note = Note::attempt(self.step(at).attempts)
            .with(json!({"error": error.message, "class": error.class.as_str(), "delay_ms": millis(delay)}));
        self.apply(StepEvent::Retries.at(at), note)?;
        self.close_attempt(
            at,
            Direction::Forward,
            Outcome::Failed,
            Some(error),
            ObjectsFate::Nothing,
        );
        let due = self.record().now.later(delay);
        let row = self.step_mut(at);
        row.retries_used += 1;
        row.due_at = Some(due);
        Ok(())
    }

    /// The step has given up, or was told to stop.
    ///
    /// # Errors
    /// As the judge says.
    pub fn step_failed(&mut self, at: usize, error: &StepError) -> Result<(), Illegal> {
        let note = Note::attempt(self.step(at).attempts)
            .with(json!({"error": error.message, "class": error.class.as_str(), "backtrace": error.backtrace}));
        self.apply(StepEvent::Failed.at(at), note)?;
        let outcome = if error.class == ErrorClass::Cancelled {
            Outcome::Cancelled
        } else {
            Outcome::Failed
        };
        self.close_attempt(
            at,
            Direction::Forward,
            outcome,
            Some(error),
            ObjectsFate::Nothing,
        );
        Ok(())
    }

    /// The attempt that has just failed did nothing, and no attempt before it can have had an
    /// effect: there is nothing to undo, as if the step had never started.
    pub fn step_did_nothing(&mut self, at: usize) {
        self.add_detail("sent", false.into());
        self.step_mut(at).started_seq = None;
    }

    /// It is unknown how far the attempt came.
    ///
    /// # Errors
    /// As the judge says.
    pub fn step_in_doubt(&mut self, at: usize, why: &str) -> Result<(), Illegal> {
        let note = Note::attempt(self.step(at).attempts).with(json!({"why": why}));
        self.apply(StepEvent::InDoubt.at(at), note)?;
        self.close_attempt(
            at,
            Direction::Forward,
            Outcome::InDoubt,
            None,
            ObjectsFate::Nothing,
        );
        Ok(())
    }

    /// Objects of the step's own attempts that an output names, which no success of theirs has
    /// kept.
    pub(super) fn keep_what_it_names(&mut self, at: usize, output: &Value) {
        let (task, step) = (self.record().task.id, self.step(at).clone());
        let mut attempts = BTreeSet::new();
        each_text(output, &mut |text| {
            let key =
                ObjectKey::parse(text).filter(|key| key.task == task && key.step == step.name);
            attempts.extend(
                key.map(|key| key.attempt)
                    .filter(|attempt| *attempt <= step.attempts),
            );
        });
        for attempt in attempts {
            self.attempts.push(
                &mut self.record,
                AttemptWrite::Keep {
                    step: step.no,
                    attempt,
                },
            );
        }
    }

    /// The step's condition says no.
    ///
    /// # Errors
    /// As the judge says.
    pub fn skip_step(&mut self, at: usize) -> Result<(), Illegal> {
        self.apply(StepEvent::Skipped.at(at), Note::default())
    }

    /// The step's scratch is gone: it goes back to Pending, and its next output supersedes this
    /// one.
    ///
    /// # Errors
    /// As the judge says.
    pub fn scratch_lost(&mut self, at: usize) -> Result<(), Illegal> {
        let note =
            Note::attempt(self.step(at).attempts).with(json!({"superseded": self.step(at).output}));
        self.apply(StepEvent::ScratchLost.at(at), note)?;
        let row = self.step_mut(at);
        (row.output, row.keeps_request) = (None, true);
        let step = row.no;
        self.attempts
            .push(&mut self.record, AttemptWrite::Release { step });
        Ok(())
    }

    /// All steps are done.
    ///
    /// # Errors
    /// As the judge says.
    pub fn complete(&mut self, response: Value) -> Result<(), Illegal> {
        self.apply(LifecycleEvent::Completed, Note::default())?;
        self.task_mut().response = Some(response);
        Ok(())
    }

    /// Gives the task back, for a host of this kind.
    ///
    /// # Errors
    /// As the judge says.
    pub fn hand_over(&mut self, host: Host, why: &str) -> Result<(), Illegal> {
        self.apply(
            LifecycleEvent::HandedOver,
            Note::default().with(json!({"host": host.as_str(), "why": why})),
        )?;
        self.task.lease = LeaseChange::Release;
        self.dispatch_to(host);
        Ok(())
    }

    /// Puts the task to sleep, at most until its deadline.
    ///
    /// # Errors
    /// As the judge says.
    pub fn wait(&mut self, reason: WaitReason, delay: Duration) -> Result<(), Illegal> {
        self.wait_with(reason, delay, Value::Null)
    }

    /// The same, with more to say about it in the audit: an object, or `Null`.
    ///
    /// # Errors
    /// As the judge says.
    pub fn wait_with(
        &mut self,
        reason: WaitReason,
        delay: Duration,
        more: Value,
    ) -> Result<(), Illegal> {
        let left = self
            .record()
            .task
            .deadline_at
            .map(|deadline| deadline.after(self.record().now));
        let delay = left.map_or(delay, |left| delay.min(left));
        let mut details = json!({"for": reason.as_str(), "delay_ms": millis(delay)});
        if let (Value::Object(details), Value::Object(more)) = (&mut details, more) {
            details.extend(more);
        }
        self.apply(LifecycleEvent::Waits(reason), Note::default().with(details))?;
        self.task_mut().waiting = Some(reason);
        // A store that counts whole milliseconds reads the time as up to one earlier, and must not wake the task before
        // its step is due.
        let due = if delay.is_zero() {
            delay
        } else {
            delay + Duration::from_millis(1)
        };
        self.task.sleeps(due);
        Ok(())
    }

    /// The task will not complete.
    ///
    /// # Errors
    /// As the judge says.
    pub fn give_up(&mut self, failure: Failure, policy: OnExhausted) -> Result<(), Illegal> {
        let left = !plan::undo_order(self.decl(), &self.record().steps).is_empty();
        let note = Note::default()
            .with(json!({"class": failure.class, "error": failure.message, "step": failure.step}));
        self.apply(LifecycleEvent::GaveUp(policy), note)?;
        let to = self.status();
        let task = self.task_mut();
        task.failure = Some(failure);
        match to {
            TaskStatus::Compensating => task.goal = Some(UndoGoal::Failed),
            TaskStatus::Failed => task.residue = left,
            TaskStatus::Submitted
            | TaskStatus::Dispatched
            | TaskStatus::Running
            | TaskStatus::Waiting
            | TaskStatus::Completed
            | TaskStatus::CompensationFailed
            | TaskStatus::Cancelled
            | TaskStatus::DeadLettered
            | TaskStatus::Resolved => {}
        }
        Ok(())
    }

    /// Honours the cancel that was accepted while the task ran.
    ///
    /// # Errors
    /// As the judge says.
    pub fn stop(&mut self) -> Result<(), Illegal> {
        self.apply(LifecycleEvent::Stopped, Note::default())?;
        self.task_mut().goal = Some(UndoGoal::Cancelled);
        Ok(())
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn each_text(value: &Value, see: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(values) => values.iter().for_each(|value| each_text(value, see)),
        Value::Object(fields) => fields.values().for_each(|value| each_text(value, see)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
