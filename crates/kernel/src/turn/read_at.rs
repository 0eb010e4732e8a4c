//! This host's clocks, side by side: what has passed since the database's time was read. Must not know a turn.

use crate::engine::Engine;
use std::time::Duration;

/// A calendar that is ahead of the timer by more than this was set forward, or the machine was suspended and its timer stood still.
const SET_FORWARD: Duration = Duration::from_secs(2);

/// This host's clocks at the moment when the database's time was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadAt {
    timer: Duration,
    calendar: Duration,
}

impl ReadAt {
    pub(super) fn now(engine: &Engine) -> Self {
        let clock = &engine.ports.clock;
        Self {
            timer: clock.monotonic(),
            calendar: Duration::from_millis(clock.unix_millis()),
        }
    }

    /// By the timer.
    pub(super) fn until(self, now: Self) -> Duration {
        now.timer.saturating_sub(self.timer)
    }

    /// Whether the calendar says that more has passed than the timer has counted.
    pub(super) fn is_set_forward(self, now: Self) -> bool {
        now.calendar.saturating_sub(self.calendar) > self.until(now) + SET_FORWARD
    }
}
