//! The table `workers`. Must not say who is lost.

use super::fault::{Fault, words};
use super::statement::{Bind, Statement, Str, interval, some_time, time, values};
use crate::worker_columns::{WorkerColumns, WorkerTimes};
use counterstep_kernel::ports::{WORKERS_READ, WorkerRow, WorkerSeen};
use diesel::pg::data_types::PgTimestamp;
use diesel::sql_types as sql;
use std::time::Duration;

type SomeText = sql::Nullable<sql::Text>;
type SomeTime = sql::Nullable<sql::Timestamptz>;
type SomeNumber = sql::Nullable<sql::BigInt>;

type Types = (
    (sql::Timestamptz, SomeText, SomeText, SomeText),
    (SomeText, SomeText, SomeText),
    (SomeNumber, SomeNumber, SomeNumber),
    (SomeTime, SomeText, SomeTime, SomeTime, SomeTime),
);

type Words = Option<String>;
type At = Option<PgTimestamp>;

/// The clock, and a process; where there is none, the clock alone.
pub(super) type Read = (
    (PgTimestamp, Words, Words, Words),
    (Words, Words, Words),
    (Option<i64>, Option<i64>, Option<i64>),
    (At, Words, At, At, At),
);

/// The processes, the last seen first.
pub(super) fn all() -> Statement<'static, Types> {
    Statement::of(
        "SELECT now(), w.id, w.machine, w.program, w.queues, w.types, w.running, w.concurrency, w.running_count,
           w.lost_after, w.passed_at, w.passed, w.started_at, w.seen_at, w.stopped_at
         FROM (SELECT 1) clock LEFT JOIN LATERAL
           (SELECT * FROM workers ORDER BY seen_at DESC, id LIMIT ?) w ON TRUE
         ORDER BY w.seen_at DESC, w.id",
        values![i64::from(WORKERS_READ)],
    )
}

/// What [`all`] has read, where it is a process.
pub(super) fn decode(read: Read) -> Result<WorkerSeen, Fault> {
    let ((now, id, machine, program), (queues, types, running), (concurrency, running_count, lost_after), last) = read;
    let (passed_at, passed, started_at, seen_at, stopped_at) = last;
    let columns = WorkerColumns {
        id: id.unwrap_or_default(),
        machine: machine.unwrap_or_default(),
        program: program.unwrap_or_default(),
        queues: queues.unwrap_or_default(),
        types: types.unwrap_or_default(),
        running: running.unwrap_or_default(),
        concurrency: concurrency.unwrap_or_default(),
        running_count: running_count.unwrap_or_default(),
        lost_after: lost_after.unwrap_or_default(),
        passed,
    };
    let times = WorkerTimes {
        now: time(now),
        passed_at: some_time(passed_at),
        started_at: time(started_at.unwrap_or(now)),
        seen_at: time(seen_at.unwrap_or(now)),
        stopped_at: some_time(stopped_at),
    };
    Ok(columns.decode(times)?)
}

// None of these waits for the disk: after a power cut none of the processes is there.
const SEEN: &str = "WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set)
    INSERT INTO workers (id, machine, program, queues, types, running, concurrency, running_count, lost_after, passed,
      passed_at, started_at, seen_at)
    SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, now() - ?, now(), now() FROM relaxed WHERE relaxed.set IS NOT NULL
    ON CONFLICT (id) DO UPDATE SET machine = excluded.machine, program = excluded.program, queues = excluded.queues,
      types = excluded.types, running = excluded.running, concurrency = excluded.concurrency,
      running_count = excluded.running_count, lost_after = excluded.lost_after, passed = excluded.passed,
      passed_at = excluded.passed_at, seen_at = excluded.seen_at, stopped_at = NULL
    RETURNING 1::bigint";

const STOPPED: &str = "WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set)
    UPDATE workers SET running = '[]', running_count = 0, seen_at = now(), stopped_at = now() FROM relaxed
    WHERE id = ? AND relaxed.set IS NOT NULL RETURNING 1::bigint";

/// What a process says of itself.
pub(super) fn seen(row: &WorkerRow) -> Result<Statement<'static, sql::BigInt>, Fault> {
    let columns = WorkerColumns::encode(row)?;
    let text = |text: &str| Bind::from(words(text).into_owned());
    let binds: [Bind<'static>; 11] = [
        text(&columns.id),
        text(&columns.machine),
        text(&columns.program),
        columns.queues.into(),
        columns.types.into(),
        columns.running.into(),
        columns.concurrency.into(),
        columns.running_count.into(),
        columns.lost_after.into(),
        Bind::Text(columns.passed.map(Str::from)),
        Bind::Interval(row.passed.as_ref().map(|passed| interval(passed.ago))),
    ];
    Ok(Statement::of(SEEN, binds))
}

/// That it stops.
pub(super) fn stopped(id: &str) -> Statement<'static, sql::BigInt> {
    Statement::of(STOPPED, values![words(id).into_owned()])
}

/// Forgets processes that have not been seen for so long.
pub(super) fn forget(ids: &[String], unseen_for: Duration) -> Statement<'static, sql::BigInt> {
    let ids: Vec<Str<'static>> = ids.iter().map(|id| Str::Owned(words(id).into_owned())).collect();
    let age = interval(unseen_for.min(super::LONGEST_LOOK_BACK));
    Statement::of(
        "DELETE FROM workers WHERE id = ANY(?) AND seen_at <= now() - ? RETURNING 1::bigint",
        values![ids, age],
    )
}
