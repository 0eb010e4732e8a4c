//! What came and went, counted. Must not look at tasks that were there before.

use super::fault::Fault;
use super::prepared::Prepare;
use super::revisions::states;
use crate::columns::write_json;
use crate::rows;
use counterstep_kernel::ports::{Flow, FlowQuery};
use diesel::RunQueryDsl;
use diesel::SqliteConnection;
use diesel::sql_types::{BigInt, Text};

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
    let counted = diesel::sql_query(COUNT)
        .bind::<Text, _>(first.to_string())
        .bind::<Text, _>(below.to_string())
        .bind::<BigInt, _>(query.since.0)
        .bind::<BigInt, _>(query.until.0)
        .bind::<Text, _>(write_json(&query.task_types)?)
        .bind::<Text, _>(states(true))
        .prepared()
        .load(connection)?;
    Ok(rows::flow(counted)?)
}
