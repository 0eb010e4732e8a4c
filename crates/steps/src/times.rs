//! The database's times, as numbers and as RFC 3339 texts; and how long a host's timer leaves.

use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Microseconds since 1970-01-01 UTC by the database's clock.
#[derive(
    Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct DbTime(pub i64);

impl DbTime {
    /// How long until then, seen from `now`; zero where it has passed.
    #[must_use]
    pub fn after(self, now: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(now.0)).unwrap_or(0))
    }

    /// This long after it.
    #[must_use]
    pub fn later(self, by: Duration) -> Self {
        // At most a quarter of the range, which practically never comes, and a time that every database
        // knows.
        let by = i64::try_from(by.as_micros())
            .unwrap_or(i64::MAX)
            .min(i64::MAX / 4);
        Self(self.0.saturating_add(by))
    }

    /// This long before it, and not before 1970.
    #[must_use]
    pub fn earlier(self, by: Duration) -> Self {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(by).max(0))
    }
}

impl From<DbTime> for SystemTime {
    fn from(time: DbTime) -> Self {
        let distance = Duration::from_micros(time.0.unsigned_abs());
        let moment = if time.0 < 0 {
            Self::UNIX_EPOCH.checked_sub(distance)
        } else {
            Self::UNIX_EPOCH.checked_add(distance)
        };
        // No system's clock has fewer years than microseconds have in an i64.
        moment.unwrap_or(Self::UNIX_EPOCH)
    }
}

/// How long something may still take, by the timer of the host that it runs on.
#[derive(Clone)]
pub struct TimeLeft(Arc<dyn Fn() -> Duration + Send + Sync>);

impl TimeLeft {
    /// Read so.
    #[must_use]
    pub fn read_by(read: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Seen from now; zero when it is over.
    #[must_use]
    pub fn now(&self) -> Duration {
        (self.0)()
    }
}

impl Default for TimeLeft {
    /// Without a limit.
    fn default() -> Self {
        Self::read_by(|| Duration::MAX)
    }
}

impl fmt::Debug for TimeLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimeLeft({:?})", self.now())
    }
}

/// `2026-11-20T23:11:05.123456Z`. A time that the calendar does not have, before the year −9999 or
/// after 9999, is its first or last one.
#[must_use]
pub fn rfc3339(time: DbTime) -> String {
    let nearest = if time.0 < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    let time = Timestamp::from_microsecond(time.0).unwrap_or(nearest);
    format!("{time:.6}")
}

/// Reads an RFC 3339 time, as microseconds since 1970-01-01 UTC; `None`: it is none.
#[must_use]
pub fn read_rfc3339(text: &str) -> Option<i64> {
    text.parse::<Timestamp>()
        .ok()
        .map(Timestamp::as_microsecond)
}

/// The same, of a person or a program that gave it.
///
/// # Errors
/// What is wrong with it, and what is expected.
pub fn read_time(text: &str) -> Result<DbTime, String> {
    if let Some(micros) = read_rfc3339(text) {
        return Ok(DbTime(micros));
    }
    let pieces = Pieces::parse(text);
    let is_time = pieces.is_ok_and(|it| it.time().is_some() && it.offset().is_some());
    Err(if is_time {
        format!(
            "`{text}` is too far away: expected a time up to {:.0}",
            Timestamp::MAX
        )
    } else {
        format!("`{text}` is no point of time: write it as 2026-12-24T18:00:00+01:00")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_no_calendar_here_has_is_too_far_away() {
        assert_eq!(read_time("1970-01-01T00:00:01Z"), Ok(DbTime(1_000_000)));
        for (text, words) in [
            (
                "9999-12-31T00:00:00Z",
                "is too far away: expected a time up to 9999-12-30T22:00:00Z",
            ),
            ("tomorrow", "is no point of time"),
            ("2026-12-24", "is no point of time"),
            ("2026-12-24T18:00:00", "is no point of time"),
        ] {
            let error = read_time(text).expect_err(text);
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn known_times_are_written_as_known() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_709_251_199_999_999, "2024-02-29T23:59:59.999999Z"),
            (1_709_251_200_000_000, "2024-03-01T00:00:00.000000Z"),
            (4_107_542_400_000_001, "2100-03-01T00:00:00.000001Z"),
            (1_000_000_000_000_000, "2001-09-09T01:46:40.000000Z"),
        ] {
            assert_eq!(rfc3339(DbTime(micros)), text);
            assert_eq!(read_rfc3339(text), Some(micros));
        }
    }

    #[test]
    fn times_before_and_after_1970_are_those_of_the_system() {
        let epoch = SystemTime::UNIX_EPOCH;
        let micro = Duration::from_micros(1);
        assert_eq!(SystemTime::from(DbTime(1)), epoch + micro);
        assert_eq!(SystemTime::from(DbTime(-1)), epoch - micro);
    }

    #[test]
    fn times_beyond_the_calendar_are_its_ends() {
        for (micros, text) in [
            (i64::MAX / 4, "9999-12-30T22:00:00.999999Z"),
            (i64::MIN / 4, "-009999-01-02T01:59:59.000000Z"),
        ] {
            assert_eq!(rfc3339(DbTime(micros)), text);
        }
    }
}
