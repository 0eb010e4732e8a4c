//! Queries on the table `task_types`, and the count of failures. Must not decide what either leads to.

use super::fault::{Fault, micros, parse_some};
use super::prepared::Prepare;
use super::schema::task_types;
use crate::columns::{failure_class, write_json};
use counterstep_contracts::Rev;
use counterstep_kernel::ports::{Disabled, FailureQuery, TypeRow};
use counterstep_kernel::record::DbTime;
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

/// A row, column by column.
#[derive(Debug, Clone, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = task_types, treat_none_as_null = true, check_for_backend(diesel::sqlite::Sqlite))]
struct Columns {
    name: String,
    disabled_since: Option<i64>,
    probe_from: Option<i64>,
    probe: Option<String>,
    probe_since: Option<i64>,
    reason: String,
    by: String,
    counts_from: Option<i64>,
    rev: i64,
}

fn decode(columns: Columns) -> Result<TypeRow, Fault> {
    let probe = parse_some("task_types.probe", columns.probe.as_deref())?;
    let probe = probe.zip(columns.probe_since.map(DbTime));
    let probe_from = columns.probe_from.map(DbTime);
    Ok(TypeRow {
        name: columns.name,
        disabled: columns.disabled_since.map(|since| Disabled { since: DbTime(since), probe_from, probe }),
        reason: columns.reason,
        by: columns.by,
        counts_from: columns.counts_from.map(DbTime),
        rev: Rev(columns.rev),
    })
}

/// All of them, by name.
pub(super) fn all(connection: &mut SqliteConnection) -> Result<Vec<TypeRow>, Fault> {
    let rows = task_types::table.select(Columns::as_select()).order(task_types::name).load(connection)?;
    rows.into_iter().map(decode).collect()
}

/// Whether it was at the revision before, and is written.
pub(super) fn put(connection: &mut SqliteConnection, row: &TypeRow) -> Result<bool, Fault> {
    let found = task_types::table.find(&row.name);
    let rev: Option<i64> = found.select(task_types::rev).first(connection).optional()?;
    if Rev(rev.unwrap_or(0)).next() != row.rev {
        return Ok(false);
    }
    let probe = row.disabled.and_then(|disabled| disabled.probe);
    let columns = Columns {
        name: row.name.clone(),
        disabled_since: row.disabled.map(|disabled| disabled.since.0),
        probe_from: row.disabled.and_then(|disabled| disabled.probe_from).map(|from| from.0),
        probe: probe.map(|(task, _)| task.to_string()),
        probe_since: probe.map(|(_, since)| since.0),
        reason: row.reason.clone(),
        by: row.by.clone(),
        counts_from: row.counts_from.map(|from| from.0),
        rev: row.rev.0,
    };
    match rev {
        Some(_) => diesel::update(found).set(&columns).execute(connection)?,
        None => diesel::insert_into(task_types::table).values(&columns).execute(connection)?,
    };
    Ok(true)
}

#[derive(Debug, QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

// Each part goes by an index that ends at the window's begin; of the parked tasks the newest are looked at, so that a
// backlog of old ones does not slow every count. A parked task has not ended: it has been as it is since its last change.
// What people retry, undo or settle is no news.
const FAILURES: &str = "WITH start (at) AS (SELECT max(?1, coalesce((SELECT finished_at FROM tasks
        WHERE tenant = ?4 AND task_type = ?2 AND status = 'completed' AND finished_at > ?1 ORDER BY finished_at DESC LIMIT 1), ?1))),
    failed AS (SELECT 1 FROM tasks t WHERE t.tenant = ?4 AND t.task_type = ?2 AND t.status = 'failed'
        AND t.finished_at > (SELECT at FROM start)
        AND EXISTS (SELECT 1 FROM json_each(?5) class WHERE instr(t.failure, class.value) > 0)
        AND NOT EXISTS (SELECT 1 FROM journal a WHERE a.task = t.id AND a.actor LIKE 'operator%') LIMIT ?3),
    newest AS (SELECT * FROM (SELECT id FROM tasks WHERE status = 'compensation_failed' ORDER BY id DESC LIMIT 1000)
        UNION ALL SELECT * FROM (SELECT id FROM tasks WHERE status = 'dead_lettered' ORDER BY id DESC LIMIT 1000)),
    parked AS (SELECT 1 FROM newest n JOIN tasks t ON t.id = n.id WHERE t.tenant = ?4 AND t.task_type = ?2
        AND t.updated_at > (SELECT at FROM start)
        AND EXISTS (SELECT 1 FROM json_each(?5) class WHERE instr(t.failure, class.value) > 0)
        AND NOT EXISTS (SELECT 1 FROM journal a WHERE a.task = t.id AND a.actor LIKE 'operator%') LIMIT ?3)
    SELECT (SELECT count(*) FROM failed) + (SELECT count(*) FROM parked) AS count";

/// Failures since the last success, within the window.
pub(super) fn failures(connection: &mut SqliteConnection, query: &FailureQuery, now: i64) -> Result<u32, Fault> {
    let from = (now - micros(query.within)).max(query.counts_from.map_or(0, |from| from.0));
    let classes: Vec<_> = query.classes.iter().map(|class| failure_class(class)).collect();
    let counted: Count = diesel::sql_query(FAILURES)
        .bind::<BigInt, _>(from)
        .bind::<Text, _>(&query.task_type)
        .bind::<BigInt, _>(i64::from(query.at_most))
        .bind::<Text, _>(&query.tenant.0)
        .bind::<Text, _>(write_json(&classes)?)
        .prepared()
        .get_result(connection)?;
    Ok(u32::try_from(counted.count).unwrap_or(u32::MAX))
}
