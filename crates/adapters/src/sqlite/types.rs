//! Queries on the table `task_types`, and the count of failures. Must not decide what either leads to.

use super::fault::{Fault, micros, parse_some};
use super::schema::{task_types, tasks};
use counterstep_contracts::Rev;
use counterstep_kernel::ports::{Disabled, FailureQuery, TypeRow};
use counterstep_kernel::record::DbTime;
use diesel::SqliteConnection;
use diesel::dsl::max;
use diesel::prelude::*;

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

/// Failures since the last success, within the window.
pub(super) fn failures(connection: &mut SqliteConnection, query: &FailureQuery, now: i64) -> Result<u32, Fault> {
    let of_type = || tasks::table.filter(tasks::task_type.eq(&query.task_type));
    let last: Option<i64> =
        of_type().filter(tasks::status.eq("completed")).select(max(tasks::finished_at)).first(connection)?;
    let from = [Some(now - micros(query.within)), query.counts_from.map(|from| from.0), last];
    let from = from.into_iter().flatten().max().unwrap_or(0);
    let most = i64::from(query.at_most);
    let failed = of_type().filter(tasks::status.eq("failed")).filter(tasks::finished_at.gt(from));
    let failed: Vec<String> = failed.select(tasks::id).limit(most).load(connection)?;
    // A parked task has not ended: it has been as it is since its last change.
    let parked = of_type()
        .filter(tasks::status.eq_any(["compensation_failed", "dead_lettered"]))
        .filter(tasks::updated_at.gt(from));
    let parked: Vec<String> = parked.select(tasks::id).limit(most).load(connection)?;
    Ok(u32::try_from(failed.len() + parked.len()).unwrap_or(u32::MAX))
}
