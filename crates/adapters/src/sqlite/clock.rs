//! The clock of one SQLite file: the machine's, which may be set at any moment, made into one that
//! never runs backwards and under which a lease lasts as long as it says. Owns the table `clock`;
//! must not know what the time is used for, except what a process holds as long as it lives.

use super::prepared::Statement;
use super::schema::{clock, tasks};
use diesel::SqliteConnection;
use diesel::prelude::*;
use parking_lot::{Mutex, MutexGuard};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The machine's clocks.
pub trait MachineClock: Debug + Send + Sync {
    /// Since 1970 UTC. It may be set forward and back.
    fn calendar(&self) -> Duration;

    /// Since a fixed point that all processes share until the machine restarts. It is never set.
    fn monotonic(&self) -> Duration;

    /// How long the machine has been suspended since that point: the monotonic time does not count it.
    fn suspended(&self) -> Duration {
        Duration::ZERO
    }

    /// Names the fixed point of the monotonic time: times of two names cannot be compared. Empty
    /// where the machine has no name for it, and then it cannot be compared with itself either.
    fn origin(&self) -> String {
        origin()
    }
}

/// The boot of the machine, and the namespace that may shift its timers for some processes.
fn origin() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let shifted = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    if boot.is_empty() {
        boot
    } else {
        format!("{} {}", boot.trim(), shifted.display())
    }
}

/// Those of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClocks;

impl MachineClock for SystemClocks {
    fn calendar(&self) -> Duration {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }

    fn monotonic(&self) -> Duration {
        // Not `Instant`: it cannot be compared with that of another process.
        Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
    }

    fn suspended(&self) -> Duration {
        let since_boot = Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
        since_boot.saturating_sub(self.monotonic())
    }
}

/// The calendar counts as set forward where it is ahead by more than this. A smaller difference is a
/// correction by time servers.
const SET_FORWARD: i64 = 2_000_000;

/// A calendar that is behind by more than this, in microseconds, is logged.
const SET_BACK: i64 = 60_000_000;

/// A start is refused where the calendar is ahead by more than this, in microseconds: one write with it would
/// make every timer due, end retentions, and leave the file's time in that future.
const WRONG: i64 = 24 * 3_600_000_000;

/// Moves along what processes hold beside the leases of tasks: their place in the registry, permits of limits, and the keys
/// and files of requests that arrive.
const HELD: [&str; 4] = [
    "UPDATE documents SET seen_at = seen_at + ? WHERE kind = 'worker'",
    "UPDATE documents SET rev = rev + 1, body = json_set(body, '$.holders', (SELECT json_group_object(holder.key, \
     json_set(holder.value, '$.until', json_extract(holder.value, '$.until') + ?)) FROM json_each(body, '$.holders') holder)) \
     WHERE kind = 'limit' AND json_valid(body) AND json_type(body, '$.holders') = 'object'",
    "UPDATE idempotency SET expires_at = expires_at + ? WHERE answer IS NULL",
    "UPDATE receives SET sweep_at = sweep_at + ? WHERE is_condemned = 0",
];

/// What is known when a time is asked for. In microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    /// The calendar.
    calendar: i64,
    /// The latest time that the file's writes have used.
    written: i64,
    /// The last time that this process has used, and the monotonic time that has passed since.
    own: Option<i64>,
    /// The same of the file's last write, where that one's monotonic time has the same origin.
    file: Option<i64>,
}

/// A time, and how far the calendar was set forward since the time before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    now: i64,
    set_forward: i64,
}

impl Known {
    fn reading(self) -> Reading {
        // Also for a process that has just started, and has no time of its own: after a calendar that was set back it would
        // begin at the last write, and the leases that it takes would end too early for those that have counted since.
        let timers = self.own.max(self.file);
        let at_least = timers.map_or(self.written, |timer| timer.max(self.written));
        let ahead = timers.map_or(0, |_| self.calendar - at_least);
        let set_forward = if ahead > SET_FORWARD { ahead } else { 0 };
        Reading {
            now: at_least.max(self.calendar),
            set_forward,
        }
    }
}

/// The clock of one file in this process.
#[derive(Debug)]
pub(super) struct FileClock {
    machine: Arc<dyn MachineClock>,
    origin: String,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    /// The monotonic time, and what time it was then.
    used: Option<(Duration, i64)>,
    is_behind: bool,
}

impl FileClock {
    pub(super) fn new(machine: Arc<dyn MachineClock>) -> Self {
        Self {
            origin: machine.origin(),
            machine,
            last: Mutex::default(),
        }
    }

    /// By how many hours the calendar was set ahead since the file's last write, where that is too far; `accepts`: a person has
    /// looked at it.
    // The timer counts from its origin, not from the last write: a suspension before that write is taken off as well, and a
    // calendar that is ahead by less than it passes. The table has no column for the other timer, and a server is not suspended.
    pub(super) fn check(
        &self,
        connection: &mut SqliteConnection,
        accepts: bool,
    ) -> QueryResult<Option<i64>> {
        let written = written(connection)?;
        let at = written.at;
        let Known { calendar, file, .. } = self.known(written);
        let ahead = match file {
            Some(file) => calendar - file - micros(self.machine.suspended()),
            None => calendar - at,
        };
        if at == 0 || ahead <= WRONG {
            return Ok(None);
        }
        let hours = ahead / 3_600_000_000;
        match file {
            Some(_) if !accepts => return Ok(Some(hours)),
            Some(_) => tracing::warn!(
                hours,
                "the machine's clock was set forward, and is taken as it is"
            ),
            None => tracing::warn!(
                hours,
                "by the machine's clock that is the age of the last write, from before the machine started: is that clock right?"
            ),
        }
        Ok(None)
    }

    /// Notices a calendar that was set forward, before a write, and moves the leases along, and what else processes hold for
    /// some time: they are not late.
    // A transaction of its own, since the write that follows may be refused and roll back.
    pub(super) fn follow(&self, connection: &mut SqliteConnection) -> QueryResult<()> {
        let known = self.known(Written::default());
        // A process without a time of its own has to look at the file's.
        if known.own.is_some() && known.reading().set_forward == 0 {
            return Ok(());
        }
        connection.immediate_transaction(|connection| {
            let Reading { now, set_forward } = self.known(written(connection)?).reading();
            // Another process has moved them.
            if set_forward == 0 {
                return Ok(());
            }
            tracing::warn!(
                seconds = set_forward / 1_000_000,
                "the machine's clock was set forward: leases move along"
            );
            let leased = tasks::table.filter(tasks::lease_owner.is_not_null());
            let moved = tasks::lease_expires_at.eq(tasks::lease_expires_at + set_forward);
            diesel::update(leased).set(moved).execute(connection)?;
            for text in HELD {
                let values = [set_forward.into()];
                Statement { text, values }.execute(connection)?;
            }
            self.put(connection, now)
        })
    }

    /// The time of a transaction that writes.
    pub(super) fn write(&self, connection: &mut SqliteConnection) -> QueryResult<i64> {
        let now = self.read(connection)?;
        self.put(connection, now)?;
        Ok(now)
    }

    fn put(&self, connection: &mut SqliteConnection, now: i64) -> QueryResult<()> {
        let monotonic = micros(self.machine.monotonic());
        let text = "UPDATE clock SET at = ?, monotonic = ?, origin = ? WHERE id = 1";
        Statement {
            text,
            values: [now.into(), monotonic.into(), (&self.origin).into()],
        }
        .execute(connection)
        .map(drop)
    }

    /// The time of a transaction that only reads.
    pub(super) fn read(&self, connection: &mut SqliteConnection) -> QueryResult<i64> {
        let known = self.known(written(connection)?);
        let reading = known.reading();
        // Time is not set forward here: the leases have to move with it.
        let now = reading.now - reading.set_forward;
        let mut last = self.last();
        let monotonic = self.machine.monotonic();
        // Kept where it leads to a later time: of two reads at once the later one may have been
        // here first.
        if last
            .used
            .is_none_or(|(then, at)| at + micros(monotonic.saturating_sub(then)) < now)
        {
            last.used = Some((monotonic, now));
        }
        let is_behind = now - known.calendar > SET_BACK;
        if is_behind && !last.is_behind {
            let seconds = (now - known.calendar) / 1_000_000;
            tracing::warn!(
                seconds,
                "the machine's clock was set back: the database's time goes on from where it was"
            );
        }
        last.is_behind = is_behind;
        Ok(now)
    }

    fn known(
        &self,
        Written {
            at,
            monotonic,
            origin,
        }: Written,
    ) -> Known {
        let calendar = whole_millis(self.machine.calendar());
        let used = self.last().used;
        let now = self.machine.monotonic();
        let own = used.map(|(then, at)| at + whole_millis(now.saturating_sub(then)));
        let is_ours = !self.origin.is_empty() && origin.as_deref() == Some(&*self.origin);
        let file = monotonic
            .filter(|_| is_ours)
            .map(|then| micros(now) - then)
            .filter(|passed| *passed >= 0)
            .map(|passed| at + passed);
        Known {
            calendar,
            written: at,
            own,
            file,
        }
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock()
    }
}

/// What the last write of the file has left.
#[derive(Debug, Clone, Default, Queryable)]
struct Written {
    at: i64,
    /// The machine's monotonic time then; `None`: an older program wrote it.
    monotonic: Option<i64>,
    /// And what that one counts from.
    origin: Option<String>,
}

fn written(connection: &mut SqliteConnection) -> QueryResult<Written> {
    match clock::table
        .find(1)
        .select((clock::at, clock::monotonic, clock::origin))
        .get_result(connection)
    {
        // A file of an older program that is only looked at.
        Err(diesel::result::Error::DatabaseError(_, error))
            if error.message().contains("no such ") =>
        {
            Ok(Written::default())
        }
        found => found,
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Milliseconds are what a person sees; the rest would only be noise.
fn whole_millis(duration: Duration) -> i64 {
    micros(duration) / 1000 * 1000
}

#[cfg(test)]
mod tests {
    use super::{Known, Reading};

    #[test]
    fn time_never_runs_backwards_and_a_calendar_that_was_set_is_told_from_time_that_has_passed() {
        let second = 1_000_000;
        let table = [
            ("a new file", (100, 0, None, None), (100, 0)),
            (
                "a start after a night",
                (100, 10, None, Some(100)),
                (100, 0),
            ),
            (
                "a start after the machine's",
                (100, 10, None, None),
                (100, 0),
            ),
            (
                "a start with a clock that was set back",
                (50, 90, None, Some(99)),
                (99, 0),
            ),
            (
                "a start with a clock that was set forward",
                (400, 99, None, Some(101)),
                (400, 299),
            ),
            (
                "a start on another machine, whose clock is behind",
                (50, 90, None, None),
                (90, 0),
            ),
            ("as ever", (100, 99, Some(100), Some(100)), (100, 0)),
            (
                "set back while it runs",
                (40, 99, Some(101), Some(101)),
                (101, 0),
            ),
            (
                "set back, and another process is ahead",
                (40, 105, Some(101), Some(106)),
                (106, 0),
            ),
            (
                "corrected a little",
                (102, 99, Some(101), Some(101)),
                (102, 0),
            ),
            (
                "set forward while it runs",
                (400, 99, Some(101), Some(101)),
                (400, 299),
            ),
            (
                "set forward, and another process has seen it",
                (400, 399, Some(101), Some(400)),
                (400, 0),
            ),
        ];
        for (case, (calendar, written, own, file), (now, set_forward)) in table {
            let some = |at: Option<i64>| at.map(|at| at * second);
            let known = Known {
                calendar: calendar * second,
                written: written * second,
                own: some(own),
                file: some(file),
            };
            let expected = Reading {
                now: now * second,
                set_forward: set_forward * second,
            };
            assert_eq!(known.reading(), expected, "{case}");
        }
    }
}
