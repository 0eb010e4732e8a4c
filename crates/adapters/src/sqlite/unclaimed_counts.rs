//! The count of the tasks of a tenant that wait to be claimed. Must not decide what it leads to.

use super::fault::Fault;
use super::prepared::{Prepare, literal};
use counterstep_kernel::ports::WaitingQuery;
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

#[derive(Debug, QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// By the index of the states: no row of a task that has ended is read.
pub(super) fn count(connection: &mut SqliteConnection, query: &WaitingQuery) -> Result<u32, Fault> {
    let counted: Count = diesel::sql_query(format!(
        "SELECT count(*) AS count FROM (SELECT 1 FROM tasks INDEXED BY tasks_by_status
           WHERE status IN ('submitted', 'dispatched') AND tenant = ?1 AND (?2 IS NULL OR task_type = ?2) LIMIT {})",
        literal(query.at_most)
    ))
    .bind::<Text, _>(&query.tenant.0)
    .bind::<Nullable<Text>, _>(&query.task_type)
    .prepared()
    .get_result(connection)?;
    Ok(u32::try_from(counted.count).unwrap_or(u32::MAX))
}
