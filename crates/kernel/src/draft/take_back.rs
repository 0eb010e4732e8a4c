//! Hosts that were lost: the task is taken back, the attempts that an older epoch left open end, and
//! the loss is counted.

use super::{Draft, Note};
use crate::change::transition::{LeaseChange, ObjectsFate};
use crate::host::lost_hosts::{self, Loss};
use crate::record::{Failure, LOST, UndoGoal};
use crate::saga::{Illegal, LifecycleEvent};
use counterstep_contracts::{Direction, OnLost, Outcome, StepStatus, TaskStatus};
use counterstep_steps::guard;
use serde_json::json;

impl Draft {
    /// Takes the task from an owner whose lease ran out, and offers it again.
    ///
    /// # Errors
    /// As the judge says; also when no lease ran out.
    pub fn take_back(&mut self) -> Result<(), Illegal> {
        let lost_by = self.lost_owner();
        self.task.needs_expired_lease = true;
        self.task_mut().epoch = self.record().task.epoch.next();
        self.close_older_attempts()?;
        self.count_recovery(lost_by.as_deref().unwrap_or_default())?;
        if !self.status().is_at_rest() {
            self.apply(
                LifecycleEvent::TakenBack,
                Note::default().with(json!({"lost_by": lost_by})),
            )?;
            self.task.lease = LeaseChange::Release;
            let host = self.record().task.host;
            self.dispatch_to(host);
        }
        Ok(())
    }

    pub(super) fn lost_owner(&self) -> Option<String> {
        self.record()
            .lease_has_expired()
            .then(|| self.record().task.lease_owner.clone())
            .flatten()
    }

    pub(super) fn close_older_attempts(&mut self) -> Result<(), Illegal> {
        const WHY: &str = "the lease under which it ran was lost";
        for at in 0..self.record().steps.len() {
            if !self.step(at).attempt_open || guard!("attempts of a lost host", false) {
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
                    ObjectsFate::Nothing,
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
    pub(super) fn count_recovery(&mut self, lost_by: &str) -> Result<(), Illegal> {
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
        if only_stops || (guard!("bound of recoveries", count <= bound) && !for_good) {
            return Ok(());
        }
        let left = self.record().task.clone();
        let loss = Loss::of(lost_by, &self.audit, &self.record().steps);
        let mut lost = if for_good {
            Vec::new()
        } else {
            std::mem::take(&mut self.task.earlier_losses)
        };
        lost.push(loss);
        let ran = lost_hosts::text(&lost);
        let (event, message) = if for_good {
            (
                LifecycleEvent::LostForGood,
                format!("a host was lost that ran {ran}; its type has it undone then"),
            )
        } else {
            let counted = format!(
                "{count} consecutive hosts were lost while they ran it; its type allows {bound}"
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
                task.failure = Some(failure_of_lost(Direction::Forward, message));
            }
            TaskStatus::CompensationFailed => self.block(failure_of_lost(Direction::Undo, message)),
            TaskStatus::Failed => {
                let failure = &mut task.failure;
                failure.get_or_insert_with(|| failure_of_lost(Direction::Forward, message));
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

/// The failure of a task of which too many hosts were lost.
fn failure_of_lost(side: Direction, message: String) -> Failure {
    Failure {
        class: LOST.to_owned(),
        message,
        side: Some(side),
        ..Failure::default()
    }
}
