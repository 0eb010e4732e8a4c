//! When a schedule is due: a pure function of its words and a time. Owns what a change of the clock
//! does to it. The zones are those that the program was built with, so that every host comes to the
//! same answer.
//!
//! Given times of a day (`30 2 * * *`): one that the clock jumps over is due at the first instant
//! after the jump, once, and one that comes twice is due the first time. Real time that passes (the
//! hour begins with `*`): due at every instant whose local time fits, so an hour that comes twice
//! has its due times twice, and one that is missing has none.

use super::cron::Cron;
use crate::task::RequestError;
use crate::times::{DbTime, read_time, rfc3339};
use counterstep_contracts::ScheduleSpec;
use counterstep_contracts::retry::{format_duration, parse_duration};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan};
use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::Duration;

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// A due time further away than this never comes.
const FAR: i64 = 100 * 366 * 86_400;

/// Maximum number of missed due times that are caught up.
const MOST_CAUGHT_UP: u32 = 10_000;

/// When a schedule is due.
#[derive(Debug, Clone)]
pub enum When {
    /// At the local times of an expression.
    Cron {
        /// The cron expression.
        cron: Cron,
        /// The time zone.
        zone: TimeZone,
    },
    /// Once.
    Once(DbTime),
}

fn wrong(pointer: &str, message: impl Into<String>) -> RequestError {
    RequestError::new(pointer, message)
}

/// Zones of the database that stand for no place: what says them had no zone to say.
const NO_ZONES: [&str; 2] = ["Etc/Unknown", "Factory"];

/// When a stored schedule is due, and what this version refuses of it: it goes on as it did.
#[derive(Debug, Clone)]
pub struct Stored {
    /// When it is due.
    pub when: When,
    /// Why it could not be set today; `None`: it could.
    pub refused: Option<RequestError>,
}

/// Reads the times of a schedule, and gives its words the one form in which they are stored and
/// compared.
///
/// # Errors
/// [`RequestError`] names the field at fault.
pub fn read(spec: &mut ScheduleSpec) -> Result<When, RequestError> {
    let Stored { when, refused } = read_into(spec)?;
    refused.map_or(Ok(when), Err)
}

/// Reads the times of a schedule that was set once, perhaps by an earlier version, which took more.
///
/// # Errors
/// [`RequestError`] names the field at fault, where no version took it.
pub fn read_stored(spec: &ScheduleSpec) -> Result<Stored, RequestError> {
    read_into(&mut spec.clone())
}

fn read_into(spec: &mut ScheduleSpec) -> Result<Stored, RequestError> {
    let grace = parse_duration(&spec.grace)
        .filter(|grace| !grace.is_zero())
        .ok_or_else(|| {
            wrong(
                "grace",
                format!("`{}` is no duration: write 30s, 5m, 1h", spec.grace),
            )
        })?;
    spec.grace = format_duration(grace);
    if !(1..=MOST_CAUGHT_UP).contains(&spec.catch_up_limit) {
        return Err(wrong(
            "catch_up_limit",
            format!("expected a whole number from 1 to {MOST_CAUGHT_UP}"),
        ));
    }
    match (&mut spec.cron, &mut spec.run_at) {
        (Some(text), None) => {
            let cron = Cron::parse_stored(text);
            let (cron, refused) = cron.map_err(|error| wrong("cron", error.to_string()))?;
            let refused = refused.map(|error| wrong("cron", error.to_string()));
            *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let name = spec.zone.as_deref().unwrap_or("UTC");
            let no_zone = || {
                wrong(
                    "zone",
                    format!(
                        "`{name}` is no time zone: expected a name of the tz database, as Europe/Berlin"
                    ),
                )
            };
            let zone = ZONES.get(name).map_err(|_| no_zone())?;
            let is_none = NO_ZONES.iter().any(|none| none.eq_ignore_ascii_case(name));
            let refused = refused.or_else(|| is_none.then(no_zone));
            if refused.is_none() {
                spec.zone = Some(zone.iana_name().unwrap_or("UTC").to_owned());
            }
            let when = When::Cron { cron, zone };
            Ok(Stored { when, refused })
        }
        (None, Some(text)) => {
            if spec.zone.is_some() {
                return Err(wrong(
                    "zone",
                    "`run_at` says its offset itself: leave `zone` out",
                ));
            }
            let at = read_time(text).map_err(|why| wrong("run_at", why))?;
            *text = rfc3339(at);
            let when = When::Once(at);
            Ok(Stored {
                when,
                refused: None,
            })
        }
        (Some(_), Some(_)) => Err(wrong(
            "run_at",
            "`cron` and `run_at` exclude each other: leave one of them out",
        )),
        (None, None) => Err(wrong(
            "cron",
            "when? Give a `cron` expression, or a point of time in `run_at`",
        )),
    }
}

impl When {
    /// The first due time after a time.
    #[must_use]
    pub fn after(&self, time: DbTime) -> Option<DbTime> {
        match self {
            Self::Once(at) => (*at > time).then_some(*at),
            Self::Cron { cron, zone } => {
                let from = Timestamp::from_second(time.0.div_euclid(1_000_000)).ok()?;
                let found = if cron.is_every_hour() {
                    passing(cron, zone, from)
                } else {
                    given(cron, zone, from)
                };
                found.map(|found| DbTime(found.as_microsecond()))
            }
        }
    }

    /// The newest `most` due times from `first` to `until`, both included, in order.
    #[must_use]
    pub fn newest(&self, first: DbTime, until: DbTime, most: usize) -> Vec<DbTime> {
        // Looks back further and further: after a long pause there may be millions that do not
        // matter.
        let mut span = Duration::from_secs(60);
        loop {
            let from = first.max(DbTime(until.0.saturating_sub(micros(span))));
            let mut found = VecDeque::new();
            let mut at = self.after(DbTime(from.0 - 1));
            while let Some(due) = at.filter(|due| *due <= until) {
                found.push_back(due);
                if found.len() > most {
                    found.pop_front();
                }
                at = self.after(due);
            }
            if found.len() >= most || from == first {
                return found.into();
            }
            span = span.saturating_mul(4);
        }
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// The next of given times of a day.
fn given(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut from = zone.to_datetime(after).checked_add(1.second()).ok()?;
    loop {
        let local = cron.next(from)?;
        let instant = instant(zone, local)?;
        // Not so where the local time comes for the second time: it was due the first time.
        if instant > after {
            return (instant.as_second() - after.as_second() < FAR).then_some(instant);
        }
        from = local.checked_add(1.second()).ok()?;
    }
}

fn instant(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            offset.to_timestamp(local).ok()
        }
        AmbiguousOffset::Gap { before, .. } => {
            // Counted on as if the clock had not jumped, it lies behind the jump.
            let behind = before
                .to_timestamp(local)
                .ok()?
                .checked_add(1.second())
                .ok()?;
            zone.preceding(behind).next().map(|jump| jump.timestamp())
        }
    }
}

/// The next instant whose local time fits.
fn passing(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let mut from = after.checked_add(1.second()).ok()?;
    while from.as_second() - after.as_second() < FAR {
        let offset = zone.to_offset(from);
        let found = offset
            .to_timestamp(cron.next(offset.to_datetime(from))?)
            .ok()?;
        // The clock changes before: from there on it is another local time.
        match zone
            .following(from)
            .next()
            .filter(|change| change.timestamp() <= found)
        {
            Some(change) => from = change.timestamp(),
            None => return Some(found),
        }
    }
    None
}
