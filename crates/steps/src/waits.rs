//! Steps that wait, as values: the declaration's function says how long, or for what; the row of
//! the step says since when. Knows no clock: what is due is decided from the database's times.

use crate::builtin::{BuiltInStep, Work};
use crate::task::{ReadRequestFn, read_request};
use crate::times::DbTime;
use counterstep_contracts::retry::parse_duration;
use counterstep_contracts::{UndoDecl, WaitDecl};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use crate::builtin::{LONGEST_WAIT, Wait};

/// A timer: the task sleeps in the database, without a slot and without a lease, and goes on when
/// the time has come. Its output is [`Slept`].
///
/// ```
/// # use counterstep_steps::Sleep;
/// fn cool_off() -> Sleep {
///     Sleep::for_("10m")
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Sleep(Wait);

impl Sleep {
    /// This long from the step's start. `duration` as in declarations: `"500ms"`, `"2s"`, `"10m"`,
    /// `"36h"`, `"7d"`.
    ///
    /// # Panics
    /// When it is none; the step fails then.
    #[must_use]
    pub fn for_(duration: &str) -> Self {
        Self::for_duration(read(duration))
    }

    /// The same for a duration that was worked out.
    #[must_use]
    pub const fn for_duration(duration: Duration) -> Self {
        Self(Wait::For(duration))
    }

    /// Until a point of time, which is compared with the database's clock. One that has passed is
    /// no wait at all.
    #[must_use]
    pub fn until(time: impl Into<SystemTime>) -> Self {
        let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        let time = match time.into().duration_since(UNIX_EPOCH) {
            Ok(after) => micros(after),
            Err(before) => -micros(before.duration()),
        };
        Self(Wait::Until(DbTime(time)))
    }
}

/// The output of a timer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slept {
    /// When it was due, RFC 3339 in UTC, by the database's clock.
    pub due_at: String,
}

impl BuiltInStep for Sleep {
    type Output = Slept;
    const OUTPUT: &'static str = "Slept";
    const WAITS: Option<WaitDecl> = Some(WaitDecl::Timer);
    const UNDO: UndoDecl = UndoDecl::Pure;
    fn into_work(self) -> Work {
        Work::Wait(self.0)
    }
}

/// A signal: the task waits, without a slot and without a lease, until a client sends a `T` to
/// `POST /api/tasks/{id}/signals/{step}`. The signal has the step's name; its body is checked
/// against `T` and is the step's output. A signal that comes before the step waits is kept for it.
///
/// Where none comes in time, the step fails as permanent: `fallback`, `on_exhausted` and undo
/// follow as for any step.
///
/// ```
/// # use counterstep_steps::AwaitSignal;
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Approval;
/// fn approval() -> AwaitSignal<Approval> {
///     AwaitSignal::within("72h")
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AwaitSignal<T>(Duration, PhantomData<fn() -> T>);

impl<T> AwaitSignal<T> {
    /// At most this long from the step's start. `duration` as in declarations: `"30m"`, `"72h"`,
    /// `"7d"`.
    ///
    /// # Panics
    /// When it is none; the step fails then.
    #[must_use]
    pub fn within(duration: &str) -> Self {
        Self::within_duration(read(duration))
    }

    /// The same for a duration that was worked out.
    #[must_use]
    pub const fn within_duration(duration: Duration) -> Self {
        Self(duration, PhantomData)
    }

    /// Whenever it comes. The deadline of the task (`timeout`), where there is one, holds all the
    /// same.
    #[must_use]
    pub const fn whenever() -> Self {
        Self(LONGEST_WAIT, PhantomData)
    }

    /// Where none comes in time, the step completes with `None` instead of failing.
    #[must_use]
    pub const fn or_none(self) -> MaybeSignal<T> {
        MaybeSignal(self.0, PhantomData)
    }
}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> BuiltInStep for AwaitSignal<T> {
    type Output = T;
    const OUTPUT: &'static str = "the body of its signal";
    const WAITS: Option<WaitDecl> = Some(WaitDecl::Signal { optional: false });
    const UNDO: UndoDecl = UndoDecl::Pure;
    const READ_SIGNAL: Option<ReadRequestFn> = Some(read_request::<T>);
    fn into_work(self) -> Work {
        Work::Wait(Wait::Signal(self.0))
    }
}

/// An [`AwaitSignal`] that completes with `None` where none comes in time. Its output is
/// `Option<T>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaybeSignal<T>(Duration, PhantomData<fn() -> T>);

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> BuiltInStep for MaybeSignal<T> {
    type Output = Option<T>;
    const OUTPUT: &'static str = "the body of its signal, if one came";
    const WAITS: Option<WaitDecl> = Some(WaitDecl::Signal { optional: true });
    const UNDO: UndoDecl = UndoDecl::Pure;
    const READ_SIGNAL: Option<ReadRequestFn> = Some(read_request::<T>);
    fn into_work(self) -> Work {
        Work::Wait(Wait::Signal(self.0))
    }
}

pub(crate) fn read(duration: &str) -> Duration {
    match parse_duration(duration) {
        Some(duration) => duration,
        None => {
            panic!(
                "`{duration}` is no duration: expected a whole number and a unit, such as 500ms, 10m, 72h or 7d"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_after_its_duration_or_at_its_time() {
        let now = DbTime(5_000_000);
        assert_eq!(
            Wait::For(Duration::from_secs(2)).due(now).unwrap(),
            DbTime(7_000_000)
        );
        assert_eq!(
            Sleep::until(UNIX_EPOCH + Duration::from_secs(1))
                .0
                .due(now)
                .unwrap(),
            DbTime(1_000_000)
        );
        assert_eq!(
            Sleep::until(UNIX_EPOCH - Duration::from_secs(1)).0,
            Wait::Until(DbTime(-1_000_000))
        );
        assert_eq!(
            AwaitSignal::<u8>::whenever().into_work(),
            Work::Wait(Wait::Signal(LONGEST_WAIT))
        );
        assert_eq!(
            Wait::Signal(LONGEST_WAIT).due(now).unwrap(),
            now.later(LONGEST_WAIT)
        );
    }

    #[test]
    fn a_wait_that_no_database_can_add_to_its_clock_is_refused() {
        let refused = Wait::For(LONGEST_WAIT + Duration::from_micros(1)).due(DbTime(0));
        assert!(refused.is_err_and(|error| error.message.contains("36500 days")));
    }
}
