//! What came and went, counted. Must not look at tasks that were there before.

use super::fault::{Fault, parse};
use super::prepared::Prepare;
use super::revisions::states;
use crate::columns::write_json;
use counterstep_kernel::ports::{Flow, FlowQuery};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

#[derive(Debug, QueryableByName)]
struct Ended {
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = BigInt)]
    tasks: i64,
}

// An id begins with about the time of its making.
const COUNT: &str = "SELECT '' AS status, count(*) AS tasks FROM tasks
      WHERE id >= ?1 AND id < ?2 AND created_at > ?3 AND created_at <= ?4
    UNION ALL
    SELECT t.status, count(*) AS tasks FROM json_each(?5) type CROSS JOIN json_each(?6) state
      CROSS JOIN tasks t INDEXED BY tasks_ended
        ON t.task_type = type.value AND t.status = state.value AND t.finished_at > ?3 AND t.finished_at <= ?4
    GROUP BY t.status";

pub(super) fn count(connection: &mut SqliteConnection, query: &FlowQuery) -> Result<Flow, Fault> {
    let [first, below] = query.ids();
    let rows: Vec<Ended> = diesel::sql_query(COUNT)
        .bind::<Text, _>(first.to_string())
        .bind::<Text, _>(below.to_string())
        .bind::<BigInt, _>(query.since.0)
        .bind::<BigInt, _>(query.until.0)
        .bind::<Text, _>(write_json(&query.task_types)?)
        .bind::<Text, _>(states(true))
        .prepared()
        .load(connection)?;
    let mut flow = Flow::default();
    for row in rows {
        let tasks = u64::try_from(row.tasks).unwrap_or_default();
        match row.status.as_str() {
            "" => flow.submitted = tasks,
            status => drop(flow.ended.insert(parse("tasks.status", status)?, tasks)),
        }
    }
    Ok(flow)
}
