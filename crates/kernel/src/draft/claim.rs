//! A host takes a task.

use super::{Draft, Note};
use crate::change::transition::{LeaseChange, Time};
use crate::saga::{Illegal, LifecycleEvent};
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
        self.task.lease = LeaseChange::Take {
            owner: owner.to_owned(),
            ttl,
        };
        self.task.due = Time::Clear;
        self.close_older_attempts()?;
        lost_by.map_or(Ok(()), |host| self.count_recovery(&host))
    }
}
