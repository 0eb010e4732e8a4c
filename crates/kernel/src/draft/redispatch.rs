//! A task that no host has claimed is dispatched once more.

use super::{Draft, Note};
use crate::change::transition::Time;
use crate::saga::{Illegal, LifecycleEvent};
use crate::times::rfc3339;
use serde_json::json;
use std::time::Duration;

impl Draft {
    /// No host has claimed the task: it is dispatched once more. Its due time stays, so that the next
    /// time is put off for longer; where it has none, it becomes due now.
    ///
    /// # Errors
    /// As the judge says.
    pub fn redispatch(&mut self) -> Result<(), Illegal> {
        let task = &self.record().task;
        let (host, since) = (task.host, rfc3339(task.due_at.unwrap_or(task.updated_at)));
        if task.due_at.is_none() {
            self.task.due = Time::In(Duration::ZERO);
        }
        self.apply(
            LifecycleEvent::OfferedAgain,
            Note::default().with(json!({"nobody_came_since": since})),
        )?;
        self.dispatch_to(host);
        Ok(())
    }
}
