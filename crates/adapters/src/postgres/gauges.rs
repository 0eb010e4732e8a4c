//! What is under way, counted: one walk over the tasks that have not ended, and a look at the
//! oldest event.

use super::fault::{Fault, parse};
use super::finding;
use super::statement::{Statement, time, values};
use counterstep_kernel::ports::{Gauges, TaskCount};
use diesel::pg::data_types::PgTimestamp;
use diesel::sql_types as sql;

type SomeTime = sql::Nullable<sql::Timestamptz>;
type GaugeTypes = (
    sql::Timestamptz,
    SomeTime,
    sql::Nullable<sql::Text>,
    sql::Nullable<sql::Text>,
    sql::Nullable<sql::BigInt>,
    SomeTime,
    SomeTime,
);

type At = Option<PgTimestamp>;

/// The clock and the oldest event, and a state of a queue with its tasks; where there are none, the
/// first two alone.
pub(super) type GaugeRead = (
    PgTimestamp,
    At,
    Option<String>,
    Option<String>,
    Option<i64>,
    At,
    At,
);

// `id` is the order of the outbox: its oldest row is the first of the index.
const READ: &str = concat!(
    "SELECT now(), o.created_at, t.status, t.queue, t.tasks, t.running_since, t.due_since
    FROM (SELECT 1) clock
    LEFT JOIN LATERAL (SELECT created_at FROM outbox WHERE id > 0 ORDER BY id LIMIT 1) o ON TRUE
    LEFT JOIN LATERAL (
      SELECT t.status, queue, count(*) AS tasks, min(updated_at) FILTER (WHERE t.status = 'running') AS running_since,
        -- One that is offered again and again has the time of its first new offer, and not of the last.
        min(CASE WHEN unclaimed_since IS NOT NULL THEN least(due_at, unclaimed_since)
                 WHEN lease_owner IS NULL AND due_at <= now() AND t.status IN ('waiting', 'compensating') THEN due_at
            END) AS due_since
      FROM unnest(?) AS s (status) JOIN tasks t ON t.status = s.status AND ",
    finding::open!(),
    " GROUP BY t.status, queue) t ON TRUE
    ORDER BY t.status, t.queue"
);

/// The counts.
pub(super) fn read() -> Statement<'static, GaugeTypes> {
    Statement::of(READ, values![finding::open_states()])
}

/// What [`read`] has read.
pub(super) fn decode(rows: Vec<GaugeRead>) -> Result<Gauges, Fault> {
    let mut gauges = Gauges::default();
    let older = |oldest: &mut Option<std::time::Duration>, now: PgTimestamp, since: At| {
        *oldest = (*oldest).max(since.map(|since| time(now).after(time(since))));
    };
    for (now, unpublished, status, queue, count, running, due) in rows {
        older(&mut gauges.oldest_unpublished, now, unpublished);
        older(&mut gauges.oldest_running, now, running);
        older(&mut gauges.oldest_due, now, due);
        if let (Some(status), Some(queue)) = (status, queue) {
            let count = u64::try_from(count.unwrap_or_default()).unwrap_or_default();
            gauges.tasks.push(TaskCount {
                status: parse("tasks.status", &status)?,
                queue,
                count,
            });
        }
    }
    Ok(gauges)
}
