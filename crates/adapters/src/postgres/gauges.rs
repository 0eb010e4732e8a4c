//! What is under way, counted: one walk over the tasks that have not ended, and a look at the
//! oldest event.

use super::fault::{Fault, parse};
use super::statement::{Statement, Str, time, values};
use super::states::{open, states};
use crate::columns::read_json;
use counterstep_contracts::TaskStatus;
use counterstep_kernel::ports::{
    Gauges, MOST_LABEL_VALUES, MOST_PARKED_TYPES, OTHER, ParkedCount, TaskCount,
};
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
    sql::Nullable<sql::Text>,
);

type At = Option<PgTimestamp>;

/// The clock and the oldest event, and a state of a queue with its tasks and their labels; where there
/// are none, the first two alone.
pub(super) type GaugeRead = (
    PgTimestamp,
    At,
    Option<String>,
    Option<String>,
    Option<i64>,
    At,
    At,
    Option<String>,
);

macro_rules! running {
    () => {
        "min(updated_at) FILTER (WHERE t.status = 'running') AS running_since"
    };
}

// One that is offered again and again has the time of its first new offer, and not of the last.
macro_rules! due {
    () => {
        "min(CASE WHEN unclaimed_since IS NOT NULL THEN least(due_at, unclaimed_since)
                  WHEN lease_owner IS NULL AND due_at <= now() AND t.status IN ('waiting', 'compensating') THEN due_at
             END) AS due_since"
    };
}

// `id` is the order of the outbox: its oldest row is the first of the index.
macro_rules! with_outbox {
    ($tasks:expr) => {
        concat!(
            "SELECT now(), o.created_at, t.status, t.queue, t.tasks, t.running_since, t.due_since, t.label_values
             FROM (SELECT 1) clock
             LEFT JOIN LATERAL (SELECT created_at FROM outbox WHERE id > 0 ORDER BY id LIMIT 1) o ON TRUE
             LEFT JOIN LATERAL (",
            $tasks,
            ") t ON TRUE ORDER BY t.status, t.queue, t.label_values COLLATE \"C\""
        )
    };
}

const READ: &str = with_outbox!(concat!(
    "SELECT t.status, queue, count(*) AS tasks, ",
    running!(),
    ", ",
    due!(),
    ", NULL::text AS label_values
     FROM unnest(?) AS s (status) JOIN tasks t ON t.status = s.status AND ",
    open!(),
    " GROUP BY t.status, queue"
));

// Grouped twice: which values are shown is known once all are counted.
const READ_LABELLED: &str = with_outbox!(concat!(
    "WITH groups AS MATERIALIZED (
       SELECT t.status, queue, count(*) AS tasks, ",
    running!(),
    ", ",
    due!(),
    ",
         (SELECT json_agg(coalesce(t.labels ->> n.name, '') ORDER BY n.place)
          FROM unnest(?) WITH ORDINALITY AS n (name, place))::text COLLATE \"C\" AS label_values
       FROM unnest(?) AS s (status) JOIN tasks t ON t.status = s.status AND ",
    open!(),
    " GROUP BY t.status, queue, label_values),
     shown AS (SELECT label_values FROM groups GROUP BY label_values ORDER BY sum(tasks) DESC, label_values LIMIT ?)
     SELECT g.status, g.queue, sum(g.tasks)::bigint AS tasks, min(g.running_since) AS running_since,
       min(g.due_since) AS due_since, s.label_values
     FROM groups g LEFT JOIN shown s ON s.label_values = g.label_values GROUP BY g.status, g.queue, s.label_values"
));

/// The counts.
pub(super) fn read(labels: &[String]) -> Statement<'_, GaugeTypes> {
    if labels.is_empty() {
        return Statement::of(READ, values![states(false)]);
    }
    let names: Vec<Str<'_>> = labels.iter().map(|name| name.as_str().into()).collect();
    let most = i64::try_from(MOST_LABEL_VALUES).unwrap_or(i64::MAX);
    Statement::of(READ_LABELLED, values![names, states(false), most])
}

/// What [`read`] has read.
pub(super) fn decode(rows: Vec<GaugeRead>, labels: &[String]) -> Result<Gauges, Fault> {
    let mut gauges = Gauges::default();
    let older = |oldest: &mut Option<std::time::Duration>, now: PgTimestamp, since: At| {
        *oldest = (*oldest).max(since.map(|since| time(now).after(time(since))));
    };
    for (now, unpublished, status, queue, count, running, due, values) in rows {
        older(&mut gauges.oldest_unpublished, now, unpublished);
        older(&mut gauges.oldest_running, now, running);
        older(&mut gauges.oldest_due, now, due);
        if let (Some(status), Some(queue)) = (status, queue) {
            let count = u64::try_from(count.unwrap_or_default()).unwrap_or_default();
            gauges.tasks.push(TaskCount {
                status: parse("tasks.status", &status)?,
                queue,
                labels: match values {
                    Some(values) => read_json("tasks.labels", &values)?,
                    None => vec![OTHER.to_owned(); labels.len()],
                },
                count,
            });
        }
    }
    Ok(gauges)
}

/// A state, a type, its parked tasks, the last change of the oldest, and the clock.
pub(super) type ParkedRead = (String, String, i64, PgTimestamp, PgTimestamp);
type ParkedTypes = (
    sql::Text,
    sql::Text,
    sql::BigInt,
    sql::Timestamptz,
    sql::Timestamptz,
);

const PARKED: &str = concat!(
    "SELECT t.status, t.task_type, count(*) AS tasks, min(t.updated_at), now()
     FROM unnest(?) AS s (status) JOIN tasks t ON t.status = s.status AND ",
    open!(),
    " GROUP BY t.status, t.task_type ORDER BY tasks DESC, t.status, t.task_type LIMIT ?"
);

/// Parked tasks by state and type.
pub(super) fn parked() -> Statement<'static, ParkedTypes> {
    let parked = TaskStatus::ALL.iter().filter(|it| it.is_parked());
    let states: Vec<Str<'_>> = parked.map(|it| it.as_str().into()).collect();
    Statement::of(PARKED, values![states, i64::from(MOST_PARKED_TYPES)])
}

/// What [`parked`] has read.
pub(super) fn decode_parked(
    (status, task_type, count, since, now): ParkedRead,
) -> Result<ParkedCount, Fault> {
    Ok(ParkedCount {
        status: parse("tasks.status", &status)?,
        task_type,
        count: u64::try_from(count).unwrap_or_default(),
        oldest: time(now).after(time(since)),
    })
}
