//! Time that a test advances: of the process and of its databases, together. It also goes on by
//! itself, at the machine's rate.
//!
//! Must not be a second implementation of what is timed: it only answers what time it is, and ends
//! the waits that an advance passes.

use crate::many_tasks::eventually;
use counterstep_adapters::embedded::EmbeddedOptions;
use counterstep_adapters::sqlite::{MachineClock, SqliteOptions, SystemClocks};
use counterstep_contracts::TaskId;
use counterstep_contracts::retry::parse_duration;
use counterstep_kernel::ports::Clock;
use futures::future::BoxFuture;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::watch;

/// Calendar and monotonic time, read together once. The machine's calendar may be set back by a
/// moment between two readings, which is a matter for the tests of clocks.
static START: LazyLock<(Duration, Duration)> =
    LazyLock::new(|| (SystemClocks.calendar(), SystemClocks.monotonic()));

/// The machine's time, and what a test has advanced it by. Clones are one clock. Engines that share
/// a database share its clock.
///
/// Leases, timers, breakers, limits and intervals that an advance passes are over: what waits for
/// them in this process goes on at once, and the databases answer by the new time.
#[derive(Debug, Clone)]
pub struct TestClock {
    /// What its calendar showed at [`START`].
    calendar: Duration,
    ahead: Arc<watch::Sender<Duration>>,
    /// How far the calendar alone was set forward.
    set_forward: Arc<Mutex<Duration>>,
    silence: Arc<Silence>,
    #[cfg(feature = "servers")]
    postgres: crate::servers::DatabaseClocks,
}

impl TestClock {
    /// At the machine's time.
    #[must_use]
    pub fn new() -> Self {
        Self::from_calendar(START.0)
    }

    /// At this time since 1970, whatever the machine's calendar shows: for databases that were written then.
    #[must_use]
    pub fn at(since_1970: Duration) -> Self {
        let since_start = SystemClocks.monotonic().saturating_sub(START.1);
        Self::from_calendar(since_1970.saturating_sub(since_start))
    }

    fn from_calendar(calendar: Duration) -> Self {
        Self {
            calendar,
            ahead: Arc::new(watch::Sender::new(Duration::ZERO)),
            set_forward: Arc::default(),
            silence: Arc::default(),
            #[cfg(feature = "servers")]
            postgres: crate::servers::DatabaseClocks::default(),
        }
    }

    /// Options of the embedded adapters under this clock.
    #[must_use]
    pub fn embedded(&self) -> EmbeddedOptions {
        let clock = Arc::new(self.clone());
        EmbeddedOptions {
            sqlite: SqliteOptions {
                clock: clock.clone(),
                ..SqliteOptions::default()
            },
            clock,
            ..EmbeddedOptions::default()
        }
    }

    /// Lets this much time pass at once, as `31s` or `500ms`.
    ///
    /// # Panics
    /// When the text is not a duration.
    pub fn advance(&self, by: &str) {
        self.advance_by(parsed(by));
    }

    /// The same for a duration that is worked out.
    pub fn advance_by(&self, by: Duration) {
        // The database first: its time decides, and what goes on here may ask for it at once.
        #[cfg(feature = "servers")]
        self.postgres.advance(micros(by));
        self.ahead.send_modify(|ahead| *ahead += by);
    }

    /// Sets the calendar forward by this much, as `8h`, and no timer: as a person does, or as a machine finds it after a
    /// suspend. The time of SQLite files follows the calendar; PostgreSQL databases keep theirs.
    ///
    /// # Panics
    /// When the text is not a duration.
    pub fn set_calendar_forward(&self, by: &str) {
        *self.set_forward() += parsed(by);
    }

    fn set_forward(&self) -> MutexGuard<'_, Duration> {
        self.set_forward.lock()
    }

    /// Makes this clock the one of a PostgreSQL database. Stores that are open already keep the
    /// server's time.
    ///
    /// # Panics
    /// When the database does not answer.
    #[cfg(feature = "servers")]
    pub fn drive_postgres(&self, url: &str) {
        let shown = self.calendar + *self.ahead.borrow();
        self.postgres.add(url, micros(shown) - micros(START.0));
    }

    /// Makes this clock the one of a task, for [`work_for`]. The harness and the site do so
    /// themselves for tasks that they submit; the harness, too, for those that their steps submit.
    pub fn runs(&self, task: TaskId) {
        WORK.send_if_modified(|work| {
            let is_new = !work.contains_key(&task);
            let (clock, steps) = (self.clone(), 0);
            work.entry(task).or_insert(Work { clock, steps });
            is_new
        });
    }

    /// Until what it gives is dropped, SQLite files under this clock give no answer to calls that need the
    /// time.
    #[must_use]
    pub fn silence(&self) -> Silenced {
        self.silence.set(true);
        Silenced(self.silence.clone())
    }

    fn passed(&self) -> Duration {
        SystemClocks.monotonic() + *self.ahead.borrow()
    }

    fn since_1970(&self) -> Duration {
        self.calendar + self.passed().saturating_sub(START.1) + *self.set_forward()
    }
}

/// A file that gives no answer: see [`TestClock::silence`].
#[derive(Debug)]
pub struct Silenced(Arc<Silence>);

impl Silenced {
    /// How many calls wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.lock().waiting
    }
}

impl Drop for Silenced {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

#[derive(Debug, Default)]
struct Silence {
    state: Mutex<SilenceState>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct SilenceState {
    lasts: bool,
    waiting: usize,
}

impl Silence {
    fn lock(&self) -> MutexGuard<'_, SilenceState> {
        self.state.lock()
    }

    fn set(&self, lasts: bool) {
        self.lock().lasts = lasts;
        self.over.notify_all();
    }

    /// On a thread that may block.
    fn wait(&self) {
        let mut state = self.lock();
        state.waiting += 1;
        while state.lasts {
            self.over.wait(&mut state);
        }
        state.waiting -= 1;
    }
}

/// PostgreSQL counts them.
#[cfg(feature = "servers")]
fn micros(time: Duration) -> i128 {
    i128::try_from(time.as_micros()).expect("a time of this age")
}

fn parsed(duration: &str) -> Duration {
    parse_duration(duration)
        .unwrap_or_else(|| panic!("invalid duration `{duration}`; expected 500ms, 31s, 5m or 1h"))
}

/// The clock of a task, and how many of its steps take their time.
#[derive(Debug)]
struct Work {
    clock: TestClock,
    steps: usize,
}

/// Work under way, by the task that runs under a clock.
static WORK: LazyLock<watch::Sender<HashMap<TaskId, Work>>> = LazyLock::new(watch::Sender::default);

/// Takes this much time of the clock of a task's [`Harness`](crate::Harness) or
/// [`Site`](crate::Site): for steps that a test lets work for a while. Without end where the task
/// has no such clock.
pub async fn work_for(task: TaskId, time: Duration) {
    if time.is_zero() {
        return;
    }
    let mut work = WORK.subscribe();
    // A step may begin before its test knows the task's id.
    let known = work.wait_for(|work| work.contains_key(&task)).await;
    let sleep = known.map(|work| work[&task].clock.sleep(time));
    if let Ok(sleep) = sleep {
        let _working = Working::begin(task);
        sleep.await;
    }
}

/// Waits until a step of the task takes its time: an advance from then on passes it.
///
/// # Panics
/// When none ever does.
pub async fn until_works(task: TaskId) {
    eventually("a step that works", || async {
        let works = |work: &Work| work.steps > 0;
        WORK.borrow().get(&task).is_some_and(works).then_some(())
    })
    .await;
}

/// A step that takes its time.
struct Working(TaskId);

impl Working {
    fn begin(task: TaskId) -> Self {
        Self::count(task, |steps| steps + 1);
        Self(task)
    }

    fn count(task: TaskId, change: impl FnOnce(usize) -> usize) {
        WORK.send_modify(|work| {
            if let Some(work) = work.get_mut(&task) {
                work.steps = change(work.steps);
            }
        });
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        Self::count(self.0, |steps| steps.saturating_sub(1));
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl MachineClock for TestClock {
    fn calendar(&self) -> Duration {
        self.silence.wait();
        self.since_1970()
    }

    fn monotonic(&self) -> Duration {
        self.passed()
    }
}

impl Clock for TestClock {
    fn monotonic(&self) -> Duration {
        self.passed()
    }

    fn unix_millis(&self) -> u64 {
        u64::try_from(self.since_1970().as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (clock, mut ahead) = (self.clone(), self.ahead.subscribe());
        let until = self.passed().saturating_add(duration);
        Box::pin(async move {
            loop {
                let left = until.saturating_sub(clock.passed());
                if left.is_zero() {
                    return;
                }
                // Over, or advanced: either way the clock is asked again.
                let _ = tokio::time::timeout(left, ahead.changed()).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::TestClock;
    use counterstep_kernel::ports::Clock;
    use futures::FutureExt;
    use std::time::Duration;

    #[test]
    fn a_clock_of_another_time_goes_on_from_there() {
        let clock = TestClock::at(Duration::from_secs(1_000_000));
        assert_eq!(clock.unix_millis() / 10_000, 100_000);
        clock.advance("1h");
        assert_eq!(clock.unix_millis() / 10_000, 100_360);
    }

    #[tokio::test]
    async fn a_sleep_ends_once_an_advance_has_passed_its_end() {
        let clock = TestClock::new();
        let before = clock.unix_millis();
        let mut sleep = clock.sleep(Duration::from_secs(3600));
        assert!((&mut sleep).now_or_never().is_none());
        clock.advance("59m");
        assert!((&mut sleep).now_or_never().is_none(), "a minute is left");
        clock.advance("1m");
        sleep.await;
        assert!(clock.unix_millis() - before >= 3_600_000);
    }
}
