//! What is under way, counted: one walk over the tasks that have not ended, and a look at the
//! oldest event.

use super::statement::{Statement, Str, values};
use super::states::{open, parked_states, states};
use crate::rows::{GaugeTypes, ParkedTypes};
use counterstep_kernel::ports::{MOST_LABEL_VALUES, MOST_PARKED_TYPES};
use diesel::sql_types as sql;

/// The clock and the oldest event, and a state of a queue with its tasks and their labels; where there
/// are none, the first two alone.
type GaugesTypes = (
    sql::Timestamptz,
    sql::Nullable<sql::Timestamptz>,
    sql::Nullable<GaugeTypes>,
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
pub(super) fn read(labels: &[String]) -> Statement<'_, GaugesTypes> {
    if labels.is_empty() {
        return Statement::of(READ, values![states(false)]);
    }
    let names: Vec<Str<'_>> = labels.iter().map(|name| name.as_str().into()).collect();
    let most = i64::try_from(MOST_LABEL_VALUES).unwrap_or(i64::MAX);
    Statement::of(READ_LABELLED, values![names, states(false), most])
}

const PARKED: &str = concat!(
    "SELECT t.status, t.task_type, count(*) AS tasks, min(t.updated_at), now()
     FROM unnest(?) AS s (status) JOIN tasks t ON t.status = s.status AND ",
    open!(),
    " GROUP BY t.status, t.task_type ORDER BY tasks DESC, t.status, t.task_type LIMIT ?"
);

/// Parked tasks by state and type, each with the clock.
pub(super) fn parked() -> Statement<'static, (ParkedTypes, sql::Timestamptz)> {
    Statement::of(
        PARKED,
        values![parked_states(), i64::from(MOST_PARKED_TYPES)],
    )
}
