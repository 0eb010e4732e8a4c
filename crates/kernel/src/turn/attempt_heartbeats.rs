//! When a running attempt has last said that it is alive. In memory: the attempt and its turn are in one
//! process.

use crate::ports::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The heartbeats of one attempt.
#[derive(Debug)]
pub(crate) struct Liveness {
    clock: Arc<dyn Clock>,
    /// Of the last one, by the timer, in microseconds.
    last: AtomicU64,
}

impl Liveness {
    /// Of an attempt that begins.
    pub(crate) fn of(clock: Arc<dyn Clock>) -> Self {
        let beats = Self {
            clock,
            last: AtomicU64::new(0),
        };
        beats.beat();
        beats
    }

    pub(crate) fn beat(&self) {
        let now = u64::try_from(self.clock.monotonic().as_micros()).unwrap_or(u64::MAX);
        self.last.fetch_max(now, Ordering::Relaxed);
    }

    /// Ends once there has been none for `limit`.
    pub(crate) async fn silent_for(&self, limit: Duration) {
        loop {
            let last = Duration::from_micros(self.last.load(Ordering::Relaxed));
            let silent = self.clock.monotonic().saturating_sub(last);
            if silent >= limit {
                return;
            }
            self.clock.sleep(limit.saturating_sub(silent)).await;
        }
    }
}
