//! The count of failures. Must not decide what it leads to.

use super::fault::{Fault, micros};
use super::prepared::{Prepare, literal};
use crate::columns::{failure_class, write_json};
use counterstep_contracts::Tenant;
use counterstep_kernel::ports::FailureQuery;
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

#[derive(Debug, QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

// Each part goes by an index that ends at the window's begin; of the type's parked tasks the newest are
// looked at, so that a backlog of old ones does not slow every count. A parked task has not ended:
// it has been as it is since its last change. What people retry, undo or settle is no news.
macro_rules! failures {
    ($limit:expr) => {
        format!(
            "WITH start (at) AS (SELECT max(?1, coalesce((SELECT finished_at FROM tasks
        WHERE tenant = ?3 AND task_type = ?2 AND status = 'completed' AND finished_at > ?1 ORDER BY finished_at DESC LIMIT 1), ?1))),
    failed AS (SELECT 1 FROM tasks t WHERE t.tenant = ?3 AND t.task_type = ?2 AND t.status = 'failed'
        AND t.finished_at > (SELECT at FROM start)
        AND EXISTS (SELECT 1 FROM json_each(?4) class WHERE instr(t.failure, class.value) BETWEEN 1 AND instr(t.failure, '\"message\":'))
        AND NOT EXISTS (SELECT 1 FROM journal a WHERE a.task = t.id AND a.actor LIKE 'operator%') LIMIT {limit}),
    newest AS (SELECT * FROM (SELECT id FROM tasks INDEXED BY tasks_by_type_and_status
            WHERE tenant = ?3 AND task_type = ?2 AND status = 'compensation_failed' ORDER BY id DESC LIMIT 1000)
        UNION ALL SELECT * FROM (SELECT id FROM tasks INDEXED BY tasks_by_type_and_status
            WHERE tenant = ?3 AND task_type = ?2 AND status = 'dead_lettered' ORDER BY id DESC LIMIT 1000)),
    parked AS (SELECT 1 FROM newest n JOIN tasks t ON t.id = n.id WHERE t.updated_at > (SELECT at FROM start)
        AND EXISTS (SELECT 1 FROM json_each(?4) class WHERE instr(t.failure, class.value) BETWEEN 1 AND instr(t.failure, '\"message\":'))
        AND NOT EXISTS (SELECT 1 FROM journal a WHERE a.task = t.id AND a.actor LIKE 'operator%') LIMIT {limit})
    SELECT (SELECT count(*) FROM failed) + (SELECT count(*) FROM parked) AS count",
            limit = $limit
        )
    };
}

/// Failures since the last success, within the window.
pub(super) fn count(
    connection: &mut SqliteConnection,
    query: &FailureQuery,
    now: i64,
) -> Result<u32, Fault> {
    let from = (now - micros(query.within)).max(query.counts_from.map_or(0, |from| from.0));
    let classes: Vec<_> = query
        .classes
        .iter()
        .map(|class| failure_class(class))
        .collect();
    let counted: Count = diesel::sql_query(failures!(literal(query.at_most)))
        .bind::<BigInt, _>(from)
        .bind::<Text, _>(&query.task_type)
        .bind::<Text, _>(&query.tenant.0)
        .bind::<Text, _>(write_json(&classes)?)
        .prepared()
        .get_result(connection)?;
    Ok(u32::try_from(counted.count).unwrap_or(u32::MAX))
}

#[derive(Debug, QueryableByName)]
struct TenantRead {
    #[diesel(sql_type = Text)]
    tenant: String,
}

/// The tenants with failures of a type since a time. The index by tenant is walked from one to the next, however many tasks
/// each has.
pub(super) fn tenants(
    connection: &mut SqliteConnection,
    task_type: &str,
    since: i64,
) -> Result<Vec<Tenant>, Fault> {
    let read: Vec<TenantRead> = diesel::sql_query(
        "WITH RECURSIVE known (tenant) AS (SELECT min(tenant) FROM tasks
        UNION ALL SELECT (SELECT min(t.tenant) FROM tasks t WHERE t.tenant > known.tenant) FROM known WHERE known.tenant IS NOT NULL)
    SELECT known.tenant AS tenant FROM known WHERE known.tenant IS NOT NULL AND (
        EXISTS (SELECT 1 FROM tasks t WHERE t.tenant = known.tenant AND t.task_type = ?1 AND t.status = 'failed'
            AND t.finished_at > ?2)
        OR EXISTS (SELECT 1 FROM tasks t WHERE t.tenant = known.tenant AND t.task_type = ?1
            AND t.status IN ('compensation_failed', 'dead_lettered') AND t.updated_at > ?2))",
    )
    .bind::<Text, _>(task_type)
    .bind::<BigInt, _>(since)
    .prepared()
    .load(connection)?;
    Ok(read.into_iter().map(|row| Tenant(row.tenant)).collect())
}
