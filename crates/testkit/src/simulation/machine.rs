//! The machine of the database, and of all processes where they share one: what its clocks show.

use counterstep_adapters::sqlite::MachineClock;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What the calendar shows when a run begins: 2026-01-01.
const BEGIN: Duration = Duration::from_secs(1_767_225_600);

/// The machine of the database: what its clocks show.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    pub(super) began: Instant,
    clocks: Arc<Mutex<Clocks>>,
}

#[derive(Debug, Default)]
struct Clocks {
    /// The calendar was set forward by these microseconds, or back.
    set: i64,
    /// How long the machine was suspended, until now.
    suspended: Duration,
    /// Since when it is.
    since: Option<Duration>,
}

impl Machine {
    pub(super) fn new(began: Instant) -> Self {
        let clocks = Arc::default();
        Self { began, clocks }
    }

    fn all_suspended(&self) -> Duration {
        let clocks = self.clocks.lock();
        let now = self.began.elapsed();
        let since = clocks.since.unwrap_or(now);
        clocks.suspended + now.saturating_sub(since)
    }

    /// The time that its timers count.
    pub(super) fn timer(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.all_suspended())
    }

    pub(super) fn calendar_now(&self) -> Duration {
        let set = self.clocks.lock().set;
        let now = BEGIN + self.began.elapsed();
        let by = Duration::from_micros(set.unsigned_abs());
        if set < 0 { now - by } else { now + by }
    }

    /// The calendar is set forward, or back.
    pub(super) fn set(&self, by_millis: i64) {
        self.clocks.lock().set += by_millis * 1_000;
    }

    pub(super) fn suspend(&self) {
        let now = self.began.elapsed();
        self.clocks.lock().since.get_or_insert(now);
    }

    /// Waits until it does not stand still: no process runs on it before.
    pub(super) async fn runs(&self) {
        while self.clocks.lock().since.is_some() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    pub(super) fn wake(&self) {
        let all = self.all_suspended();
        let mut clocks = self.clocks.lock();
        (clocks.suspended, clocks.since) = (all, None);
    }
}

impl MachineClock for Machine {
    fn calendar(&self) -> Duration {
        self.calendar_now()
    }

    fn monotonic(&self) -> Duration {
        self.timer()
    }

    fn suspended(&self) -> Duration {
        self.all_suspended()
    }

    fn origin(&self) -> String {
        "simulated".to_owned()
    }
}
