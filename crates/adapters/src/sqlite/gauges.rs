//! What is under way, counted: one walk over the tasks that have not ended, and a look at the
//! oldest event.

use super::fault::Fault;
use super::prepared::Prepare;
use super::revisions::states;
use crate::columns;
use crate::rows::{self, ParkedRow, Time, each};
use counterstep_kernel::ports::{Gauges, MOST_LABEL_VALUES, MOST_PARKED_TYPES, ParkedCount};
use counterstep_steps::times::DbTime;
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

#[derive(Debug, QueryableByName)]
struct Oldest {
    #[diesel(sql_type = BigInt)]
    created_at: i64,
}

macro_rules! counted {
    ($label_values:expr, $group:expr) => {
        concat!(
            "SELECT status, queue, count(*) AS tasks,
               min(CASE WHEN status = 'running' THEN updated_at END) AS running_since,
               min(CASE WHEN lease_owner IS NOT NULL THEN NULL
                        WHEN status IN ('submitted', 'dispatched') OR (status = 'compensating' AND due_at IS NULL)
                          -- One that is offered again and again has the time of its first new offer, and not of the last.
                          THEN coalesce(due_at, updated_at)
                        WHEN status IN ('waiting', 'compensating') AND due_at <= ?1 THEN due_at END) AS due_since, ",
            $label_values,
            " AS label_values
             FROM tasks INDEXED BY tasks_by_status WHERE status IN (SELECT value FROM json_each(?2)) GROUP BY status, queue",
            $group
        )
    };
}

const READ: &str = concat!(counted!("NULL", ""), " ORDER BY status, queue");

// Grouped twice: which values are shown is known once all are counted.
const READ_LABELLED: &str = concat!(
    "WITH groups AS MATERIALIZED (",
    counted!(
        // A row that cannot be read hides no other.
        "(SELECT json_group_array(coalesce(CASE WHEN json_valid(labels) THEN labels ->> ('$.\"' || name.value || '\"') END, ''))
          FROM json_each(?3) name)",
        ", label_values"
    ),
    "),
     shown AS (SELECT label_values FROM groups GROUP BY label_values ORDER BY sum(tasks) DESC, label_values LIMIT ?4)
     SELECT g.status, g.queue, sum(g.tasks) AS tasks, min(g.running_since) AS running_since,
       min(g.due_since) AS due_since, s.label_values
     FROM groups g LEFT JOIN shown s ON s.label_values = g.label_values
     GROUP BY g.status, g.queue, s.label_values ORDER BY g.status, g.queue, s.label_values IS NULL, s.label_values"
);

/// The counts. The states are asked for one by one, along the list's index, as in
/// [`in_flight`](super::tasks::in_flight).
pub(super) fn read(
    connection: &mut SqliteConnection,
    now: i64,
    labels: &[String],
) -> Result<Gauges, Fault> {
    let open = states(false);
    let groups = if labels.is_empty() {
        diesel::sql_query(READ)
            .bind::<BigInt, _>(now)
            .bind::<Text, _>(open)
            .prepared()
            .load(connection)?
    } else {
        diesel::sql_query(READ_LABELLED.replace("?4", &MOST_LABEL_VALUES.to_string()))
            .bind::<BigInt, _>(now)
            .bind::<Text, _>(open)
            .bind::<Text, _>(serde_json::json!(labels).to_string())
            .prepared()
            .load(connection)?
    };
    let oldest: Vec<Oldest> = diesel::sql_query("SELECT created_at FROM outbox ORDER BY id")
        .load_at_most(1, connection)?;
    let unpublished = oldest.first().map(|oldest| Time(DbTime(oldest.created_at)));
    Ok(Gauges {
        parked: parked(connection, now)?,
        ..rows::gauges(groups, labels, DbTime(now), unpublished)?
    })
}

const PARKED: &str = "SELECT status, task_type, count(*) AS tasks, min(updated_at) AS since
     FROM tasks INDEXED BY tasks_by_status WHERE status IN (SELECT value FROM json_each(?1))
     GROUP BY status, task_type ORDER BY tasks DESC, status, task_type";

fn parked(connection: &mut SqliteConnection, now: i64) -> Result<Vec<ParkedCount>, Fault> {
    let states: Vec<_> = columns::parked_states().collect();
    let found: Vec<ParkedRow> = diesel::sql_query(PARKED)
        .bind::<Text, _>(serde_json::json!(states).to_string())
        .load_at_most(MOST_PARKED_TYPES, connection)?;
    Ok(each(found, |row| row.decode(DbTime(now)))?)
}
