//! The database's time as a turn knows it: read once, and continued by this host's timer.

use crate::ports::Clock;
use crate::record::{DbTime, TaskRecord};
use std::sync::Arc;
use std::time::Duration;

/// The database's time at some moment, and the timer's value at the same.
#[derive(Debug, Clone)]
pub(crate) struct TurnTime {
    clock: Arc<dyn Clock>,
    read: DbTime,
    at: Duration,
}

impl TurnTime {
    /// Of a record that was read just now.
    pub(crate) fn of(record: &TaskRecord, clock: Arc<dyn Clock>) -> Self {
        let (read, at) = (record.now, clock.monotonic());
        Self { clock, read, at }
    }

    /// The timer.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    pub(crate) fn now(&self) -> DbTime {
        self.read
            .later(self.clock.monotonic().saturating_sub(self.at))
    }
}
