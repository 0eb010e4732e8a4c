//! What a person decides about a parked task. Each decision is an event of its own with the note,
//! and leaves the task parked only where something is still undecided.

use super::{Draft, Note};
use crate::change::transition::{AttemptWrite, Time};
use crate::plan::{self, BackwardPlan};
use crate::record::UndoGoal;
use crate::saga::{Illegal, LifecycleEvent, Operator, StepEvent};
use counterstep_contracts::{Settled, SettledAs, StepStatus, TaskStatus};
use serde_json::{Value, json};

/// Where the details of an entry name the bulk operation that it is of.
pub(crate) const BULK: &str = "bulk_operation";

/// Why a person decided as they did; who did it is the draft's actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// In their words.
    pub note: String,
    /// The bulk operation by which they decide, where it is not about this task alone.
    pub bulk: Option<String>,
}

impl Decision {
    pub(super) fn note(&self, more: Value) -> Note {
        let mut details = json!({"note": self.note});
        if let (Some(details), Value::Object(more)) = (details.as_object_mut(), more) {
            details.extend(more);
        }
        if let Some(bulk) = &self.bulk {
            details[BULK] = json!(bulk);
        }
        Note::default().with(details)
    }
}

impl Draft {
    /// The whole task is settled by hand and ends as Resolved.
    ///
    /// # Errors
    /// As the judge says.
    pub fn resolve_task(&mut self, settled: Settled, decision: &Decision) -> Result<(), Illegal> {
        if self.status() == TaskStatus::CompensationFailed {
            for at in self.steps_at(StepStatus::CompensationFailed) {
                self.settle_undo(at, settled.settled, decision)?;
            }
        }
        let left = plan::undo_order(self.decl(), &self.record().steps);
        self.apply(
            LifecycleEvent::Operator(Operator::Resolve),
            decision.note(json!(settled)),
        )?;
        self.task_mut().settled = Some(settled);
        match settled.settled {
            // What a child has done stands, as if it had completed, but no undo of its parent reaches a
            // task that is settled: the parent is to say that something is left.
            SettledAs::Done => {
                let is_child = self.record().task.parent.is_some();
                self.task_mut().residue |= is_child && !left.is_empty();
            }
            // The operator had to delete what the steps stored: what is left of it is open to the
            // sweep.
            SettledAs::Undone => {
                for at in left {
                    let step = self.step(at).no;
                    self.attempts
                        .push(&mut self.record, AttemptWrite::Release { step });
                }
            }
            SettledAs::Skipped | SettledAs::NotNeeded | SettledAs::Redriven => {
                self.task_mut().residue |= !left.is_empty();
            }
        }
        Ok(())
    }

    /// A failed undo is settled by hand. When it was the last one, the rest of the task is undone.
    ///
    /// # Errors
    /// As the judge says.
    pub fn resolve_undo(
        &mut self,
        at: usize,
        settled: SettledAs,
        decision: &Decision,
    ) -> Result<(), Illegal> {
        self.settle_undo(at, settled, decision)?;
        if self.steps_at(StepStatus::CompensationFailed).is_empty() {
            self.resume_undo(decision)?;
        } else {
            self.block_by_undo();
        }
        Ok(())
    }

    fn settle_undo(
        &mut self,
        at: usize,
        settled: SettledAs,
        decision: &Decision,
    ) -> Result<(), Illegal> {
        self.apply(
            StepEvent::UndoResolved.at(at),
            decision.note(json!({"as": settled})),
        )?;
        let step = self.step(at).no;
        self.attempts
            .push(&mut self.record, AttemptWrite::Release { step });
        if !matches!(settled, SettledAs::Done | SettledAs::Undone) {
            self.task_mut().residue = true;
        }
        Ok(())
    }

    /// A step that gave up, or is in doubt, has the output that a person supplies. When no failed
    /// step is left, the task goes on.
    ///
    /// # Errors
    /// As the judge says.
    pub fn supply(&mut self, at: usize, output: Value, decision: &Decision) -> Result<(), Illegal> {
        self.apply(
            StepEvent::Supplied.at(at),
            decision.note(json!({"as": SettledAs::Done, "output": output})),
        )?;
        self.keep_what_it_names(at, &output);
        let row = self.step_mut(at);
        row.output = Some(output);
        row.error = None;
        (row.due_at, row.probe) = (None, None);
        if self.steps_at(StepStatus::Failed).is_empty() {
            self.go_forward(Value::Null, decision)?;
        }
        Ok(())
    }

    /// The steps that gave up run again, with their retries, and the task's time, anew. `request`: what
    /// steps are given that start from now on, where it is another one.
    ///
    /// # Errors
    /// As the judge says.
    pub fn redrive(&mut self, request: Option<Value>, decision: &Decision) -> Result<(), Illegal> {
        let told = match &request {
            Some(_) => json!({"request_changed": true}),
            None => Value::Null,
        };
        if let Some(request) = request {
            let task = self.task_mut();
            let before = std::mem::replace(&mut task.request, request);
            task.earlier_requests.push(before);
        }
        for at in self.steps_at(StepStatus::Failed) {
            self.apply(StepEvent::Redriven.at(at), decision.note(Value::Null))?;
            // From its own code on, and a wait from its beginning.
            let row = self.step_mut(at);
            (row.due_at, row.in_fallback) = (None, false);
        }
        self.go_forward(told, decision)
    }

    fn go_forward(&mut self, told: Value, decision: &Decision) -> Result<(), Illegal> {
        let mut note = decision.note(told);
        note.details["failure"] = json!(self.record().task.failure);
        self.apply(LifecycleEvent::Operator(Operator::Redrive), note)?;
        for at in 0..self.record().steps.len() {
            if self.step(at).retries_used > 0 && self.step(at).status != StepStatus::Skipped {
                self.step_mut(at).retries_used = 0;
            }
        }
        self.probe_anew();
        self.retry_children();
        let (host, timeout) = (self.record().task.host, self.decl().timeout);
        let task = self.task_mut();
        task.failure = None;
        task.recovery_attempts = 0;
        // Counted from the submission, a dead letter's time is long over when an operator has
        // looked at it.
        self.task.deadline = timeout.map_or(Time::Keep, Time::In);
        self.dispatch_to(host);
        Ok(())
    }

    /// The undos that gave up are tried again, with their retries anew; then the others follow.
    ///
    /// # Errors
    /// As the judge says.
    pub fn retry_undo(&mut self, decision: &Decision) -> Result<(), Illegal> {
        for at in self.steps_at(StepStatus::CompensationFailed) {
            // Before its undo comes what the probe finds out.
            let event = match self.step(at).probe {
                Some(_) => StepEvent::ProbeRedriven,
                None => StepEvent::UndoRedriven,
            };
            self.apply(event.at(at), decision.note(Value::Null))?;
            self.step_mut(at).undo_retries_used = 0;
        }
        self.resume_undo(decision)
    }

    fn resume_undo(&mut self, decision: &Decision) -> Result<(), Illegal> {
        self.apply(
            LifecycleEvent::Operator(Operator::RetryUndo),
            decision.note(Value::Null),
        )?;
        self.task_mut().recovery_attempts = 0;
        self.unblock();
        self.undo_or_finish()
    }

    /// A task that was parked going forward is undone.
    ///
    /// # Errors
    /// As the judge says.
    pub fn undo_parked(&mut self, decision: &Decision) -> Result<(), Illegal> {
        self.apply(
            LifecycleEvent::Operator(Operator::Undo),
            decision.note(Value::Null),
        )?;
        let goal = if self.is_cancel_requested() {
            UndoGoal::Cancelled
        } else {
            UndoGoal::Failed
        };
        self.probe_anew();
        let task = self.task_mut();
        task.goal.get_or_insert(goal);
        task.recovery_attempts = 0;
        self.undo_or_finish()
    }

    /// Sets the count of consecutive host losses to the operator's. Nothing else changes: the host that runs
    /// the task continues with it.
    ///
    /// # Errors
    /// As the judge says.
    pub fn set_recoveries(&mut self, attempts: u32, decision: &Decision) -> Result<(), Illegal> {
        let before = self.record().task.recovery_attempts;
        let told = json!({"recoveries": attempts, "before": before, "allowed": self.decl().max_recoveries});
        self.apply(
            LifecycleEvent::Operator(Operator::SetRecoveries),
            decision.note(told),
        )?;
        self.task_mut().recovery_attempts = attempts;
        Ok(())
    }

    /// Where nothing is left to undo, no host has to claim the task to find that out.
    pub(super) fn undo_or_finish(&mut self) -> Result<(), Illegal> {
        if plan::backward(self.decl(), &self.record().steps, false) == BackwardPlan::Finish {
            return self.finish_undo();
        }
        let host = self.record().task.host;
        self.dispatch_to(host);
        Ok(())
    }

    /// Positions of the steps that stand there.
    #[must_use]
    pub fn steps_at(&self, status: StepStatus) -> Vec<usize> {
        let steps = &self.record().steps;
        (0..steps.len())
            .filter(|&at| steps[at].status == status)
            .collect()
    }
}
