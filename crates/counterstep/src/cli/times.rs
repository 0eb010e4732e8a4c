//! Times for people: to the second, with how long ago that is. By this machine's clock: off by what
//! it differs from the database's.

use counterstep_contracts::retry::parse_duration;
use counterstep_steps::times::{DbTime, read_rfc3339, read_time, rfc3339};
use std::time::{SystemTime, UNIX_EPOCH};

const SECOND: i64 = 1_000_000;

/// Microseconds since 1970-01-01 UTC.
pub(super) fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A time of the API as `2026-11-20T23:11:05Z (3m ago)`; any other text as it is.
pub(super) fn shown(time: &str) -> String {
    shown_at(time, now())
}

/// A time of the API in whole seconds; any other text as it is.
pub(super) fn whole(time: &str) -> String {
    time.split_once('.')
        .map_or_else(|| time.to_owned(), |(seconds, _)| format!("{seconds}Z"))
}

fn shown_at(time: &str, now: i64) -> String {
    let Some(micros) = read_rfc3339(time) else {
        return time.to_owned();
    };
    let whole = whole(time);
    let away = now.saturating_sub(micros) / SECOND;
    match away {
        0.. => format!("{whole} ({} ago)", rough(away.unsigned_abs())),
        _ => format!("{whole} (in {})", rough(away.unsigned_abs())),
    }
}

/// A time of the API as `3 m ago`; any other text as it is.
pub(super) fn age(time: &str, now: i64) -> String {
    let Some(micros) = read_rfc3339(time) else {
        return time.to_owned();
    };
    let away = now.saturating_sub(micros) / SECOND;
    match away {
        0.. => format!("{} ago", spaced(away.unsigned_abs())),
        _ => format!("in {}", spaced(away.unsigned_abs())),
    }
}

/// Seconds as `3 m`.
pub(super) fn spaced(seconds: u64) -> String {
    let (count, unit) = largest(seconds);
    format!("{count} {unit}")
}

fn rough(seconds: u64) -> String {
    let (count, unit) = largest(seconds);
    format!("{count}{unit}")
}

/// Seconds in the largest unit of which there are two, or in seconds.
fn largest(seconds: u64) -> (u64, &'static str) {
    let units = [("d", 86_400), ("h", 3_600), ("m", 60)];
    let unit = units.into_iter().find(|(_, size)| seconds >= 2 * size);
    unit.map_or((seconds, "s"), |(unit, size)| (seconds / size, unit))
}

/// A point of time, as a flag names it: a time, or how long ago that was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Since(i64);

impl Since {
    /// As the API takes it.
    pub(super) fn rfc3339(self) -> String {
        rfc3339(DbTime(self.0))
    }
}

impl std::str::FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(age) = parse_duration(text) {
            return Ok(Self(now().saturating_sub(
                i64::try_from(age.as_micros()).unwrap_or(i64::MAX),
            )));
        }
        let time = read_time(text).map_err(|why| format!("{why}, or an age as 2h or 7d"))?;
        Ok(Self(time.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_to_the_second_with_its_age() {
        let time = "2001-09-09T01:46:40.123456Z";
        let at = 1_000_000_000 * SECOND;
        for (later, text) in [
            (1, "0s ago"),
            (119, "118s ago"),
            (121, "2m ago"),
            (7_201, "2h ago"),
            (200_000, "2d ago"),
            (-90, "in 90s"),
        ] {
            assert_eq!(
                shown_at(time, at + later * SECOND),
                format!("2001-09-09T01:46:40Z ({text})")
            );
        }
        assert_eq!(
            shown_at("2001-09-09T01:46:40Z", at),
            "2001-09-09T01:46:40Z (0s ago)"
        );
        assert_eq!(shown_at("never", at), "never");
        assert_eq!(age(time, at + 121 * SECOND), "2 m ago");
        assert_eq!(age(time, at - 90 * SECOND), "in 90 s");
        assert_eq!(age("never", at), "never");
    }

    #[test]
    fn since_is_an_age_or_a_time() {
        let since: Since = "2001-09-09T03:46:40+02:00".parse().unwrap();
        assert_eq!(since.rfc3339(), "2001-09-09T01:46:40.000000Z");
        assert!("1h".parse::<Since>().unwrap() < "1m".parse::<Since>().unwrap());
        assert!("yesterday".parse::<Since>().is_err());
    }
}
