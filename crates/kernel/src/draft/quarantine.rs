//! A task that cannot be read is parked.

use super::{Draft, Note};
use crate::ports::Unread;
use crate::record::{Failure, UNREADABLE};
use crate::saga::{Illegal, LifecycleEvent};
use counterstep_contracts::{Direction, StepStatus, TaskStatus};
use serde_json::json;

impl Draft {
    /// Parks a task that cannot be read, or was made for other steps.
    ///
    /// # Errors
    /// As the judge says.
    pub fn quarantine(&mut self, unreadable: &[Unread]) -> Result<(), Illegal> {
        self.task.needs_expired_lease = self.record().task.lease_owner.is_some();
        self.task.writes_labels = true;
        self.task_mut().epoch = self.record().task.epoch.next();
        self.place.is_unknown = true;
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
        let task = self.task_mut();
        let is_undone = task.goal.is_some();
        task.failure = Some(Failure {
            class: UNREADABLE.to_owned(),
            message,
            side: Some(if is_undone {
                Direction::Undo
            } else {
                Direction::Forward
            }),
            ..Failure::default()
        });
        Ok(())
    }
}
