//! Claims and take-backs: how a task changes hands, and what becomes of attempts that an older
//! epoch left open.

use super::{Draft, Note};
use crate::losses::{self, Loss};
use crate::ports::Unread;
use crate::record::{Failure, LOST, UndoGoal};
use crate::saga::{Illegal, LifecycleEvent};
use crate::transition::{Kept, LeaseChange, Time};
use counterstep_contracts::{Direction, OnLost, Outcome, StepStatus, TaskStatus};
use serde_json::{Value, json};
use std::time::Duration;

impl Draft {
    /// Takes the lease. Attempts that an older epoch left open are in doubt from now on.
    ///
    /// # Errors
    /// As the judge says.
    pub fn claim(&mut self, owner: &str, ttl: Duration) -> Result<(), Illegal> {
        let lost_by = self.lost_owner();
        self.task_mut().epoch = self.record().task.epoch.next();
        // The actor of the entry is the owner.
        let details = lost_by
            .as_ref()
            .map_or(Value::Null, |lost_by| json!({"lost_by": lost_by}));
        self.apply(LifecycleEvent::Claimed, Note::default().with(details))?;
        self.lease = LeaseChange::Take {
            owner: owner.to_owned(),
            ttl,
        };
        self.due = Time::Clear;
        self.close_older_attempts()?;
        lost_by.map_or(Ok(()), |host| self.count_recovery(&host))
    }

    /// Takes the task from an owner whose lease ran out, and offers it again.
    ///
    /// # Errors
    /// As the judge says; also when no lease ran out.
    pub fn take_back(&mut self) -> Result<(), Illegal> {
        let lost_by = self.lost_owner();
        self.needs_expired_lease = true;
        self.task_mut().epoch = self.record().task.epoch.next();
        self.close_older_attempts()?;
        self.count_recovery(lost_by.as_deref().unwrap_or_default())?;
        if !self.status().is_at_rest() {
            self.apply(
                LifecycleEvent::TakenBack,
                Note::default().with(json!({"lost_by": lost_by})),
            )?;
            self.lease = LeaseChange::Release;
            let host = self.record().task.host;
            self.dispatch_to(host);
        }
        Ok(())
    }

    /// No host has claimed the task: it is offered once more. Its due time stays, so that the next
    /// time is put off for longer; where it has none, it is due since now.
    ///
    /// # Errors
    /// As the judge says.
    pub fn offer_again(&mut self) -> Result<(), Illegal> {
        let task = &self.record().task;
        let (host, since) = (
            task.host,
            crate::times::rfc3339(task.due_at.unwrap_or(task.updated_at)),
        );
        if task.due_at.is_none() {
            self.due = Time::In(Duration::ZERO);
        }
        self.apply(
            LifecycleEvent::OfferedAgain,
            Note::default().with(json!({"nobody_came_since": since})),
        )?;
        self.dispatch_to(host);
        Ok(())
    }

    /// Parks a task that cannot be read, or was made for other steps.
    ///
    /// # Errors
    /// As the judge says.
    pub fn quarantine(&mut self, unreadable: &[Unread]) -> Result<(), Illegal> {
        self.needs_expired_lease = self.record().task.lease_owner.is_some();
        self.task_mut().epoch = self.record().task.epoch.next();
        if self.status() == TaskStatus::Submitted {
            self.apply(LifecycleEvent::Claimed, Note::default())?;
        }
        self.close_older_attempts()?;
        for at in 0..self.record().steps.len() {
            if self.step(at).status == StepStatus::Running {
                self.step_in_doubt(at, "its task cannot be read")?;
            }
        }
        // What is written anew below, and with the steps above, is kept here.
        self.apply(
            LifecycleEvent::Quarantined,
            Note::default().with(json!({"unreadable": unreadable})),
        )?;
        let what: Vec<_> = unreadable
            .iter()
            .map(|column| column.what.as_str())
            .collect();
        let message = format!("the task cannot be read: {}", what.join("; "));
        self.task_mut().failure = Some(Failure {
            step: None,
            class: "unreadable".to_owned(),
            message,
        });
        Ok(())
    }

    fn lost_owner(&self) -> Option<String> {
        self.record()
            .lease_has_expired()
            .then(|| self.record().task.lease_owner.clone())
            .flatten()
    }

    fn close_older_attempts(&mut self) -> Result<(), Illegal> {
        const WHY: &str = "the lease under which it ran was lost";
        for at in 0..self.record().steps.len() {
            if !self.step(at).attempt_open {
                continue;
            }
            match self.step(at).status {
                StepStatus::Running => self.step_in_doubt(at, WHY)?,
                StepStatus::Compensating => self.undo_in_doubt(at, WHY)?,
                // A rebuild of lost scratch: the committed output stands whatever became of it.
                StepStatus::Completed => self.close_attempt(
                    at,
                    Direction::Forward,
                    Outcome::InDoubt,
                    None,
                    Kept::Nothing,
                ),
                StepStatus::Pending
                | StepStatus::Waiting
                | StepStatus::Skipped
                | StepStatus::Failed
                | StepStatus::InDoubt
                | StepStatus::Compensated
                | StepStatus::CompensationFailed
                | StepStatus::Resolved => self.step_mut(at).attempt_open = false,
            }
        }
        Ok(())
    }

    /// Counted before the try: a task that kills its host is counted even though the host never
    /// says so.
    fn count_recovery(&mut self, lost_by: &str) -> Result<(), Illegal> {
        let bound = self.decl().max_recoveries;
        let task = self.task_mut();
        task.recovery_attempts += 1;
        let count = task.recovery_attempts;
        // A cancel was accepted and there is nothing to undo: the next claim honours it, whatever
        // became of the host.
        let only_stops = self.status() == TaskStatus::Running
            && self.is_cancel_requested()
            && crate::plan::undo_order(self.decl(), &self.record().steps).is_empty();
        let for_good = self.decl().on_lost == OnLost::Fail && self.status() == TaskStatus::Running;
        if only_stops || (count <= bound && !for_good) {
            return Ok(());
        }
        let left = self.record().task.clone();
        let loss = Loss::of(lost_by, &self.audit, &self.record().steps);
        let mut lost = if for_good {
            Vec::new()
        } else {
            std::mem::take(&mut self.earlier_losses)
        };
        lost.push(loss);
        let ran = losses::text(&lost);
        let (event, message) = if for_good {
            (
                LifecycleEvent::LostForGood,
                format!("a host was lost that ran {ran}; its type has it undone then"),
            )
        } else {
            let counted = format!(
                "{count} hosts in a row were lost while they ran it; its type allows {bound}"
            );
            (
                LifecycleEvent::LostTooOften,
                format!("{counted}. What ran on them: {ran}"),
            )
        };
        let details =
            json!({"recoveries": count, "allowed": bound, "why": message, "losses": lost});
        self.apply(event, Note::default().with(details))?;
        let to = self.status();
        let task = self.task_mut();
        match to {
            TaskStatus::Compensating => {
                // The undo gets a full count of its own.
                task.recovery_attempts = 0;
                task.goal = Some(left.goal.unwrap_or(if left.cancel_requested_at.is_some() {
                    UndoGoal::Cancelled
                } else {
                    UndoGoal::Failed
                }));
                task.failure = Some(Failure {
                    step: None,
                    class: LOST.to_owned(),
                    message,
                });
            }
            TaskStatus::Failed | TaskStatus::CompensationFailed => {
                task.failure.get_or_insert(Failure {
                    step: None,
                    class: LOST.to_owned(),
                    message,
                });
            }
            TaskStatus::Submitted
            | TaskStatus::Dispatched
            | TaskStatus::Running
            | TaskStatus::Waiting
            | TaskStatus::Completed
            | TaskStatus::Cancelled
            | TaskStatus::DeadLettered
            | TaskStatus::Resolved => {}
        }
        Ok(())
    }
}
