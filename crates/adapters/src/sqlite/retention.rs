//! Deleting tasks that have ended: all their rows in one transaction, and a tombstone that stays for their objects. The one
//! place that deletes a task or an audit entry.

use super::fault::{Fault, parse};
use counterstep_contracts::{Rev, TaskId, TaskStatus, Tenant};
use counterstep_kernel::ports::Leaving;
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

#[derive(Debug, QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    task: String,
    #[diesel(sql_type = Text)]
    tenant: String,
    #[diesel(sql_type = BigInt)]
    rev: i64,
}

/// Those that can be read. One that cannot must not keep the others for ever.
fn decoded(lines: Vec<Line>) -> Vec<Leaving> {
    let decode = |line: Line| -> Result<Leaving, Fault> {
        Ok(Leaving { task: parse("task", &line.task)?, tenant: Tenant(line.tenant), rev: Rev(line.rev) })
    };
    let readable = lines
        .into_iter()
        .filter_map(|line| decode(line).inspect_err(|fault| tracing::warn!(?fault, "a task cannot be read")).ok());
    readable.collect()
}

/// The tasks of a type and state that ended first, and before this time.
pub(super) fn ended(
    connection: &mut SqliteConnection,
    (task_type, status): (&str, TaskStatus),
    until: i64,
    limit: u32,
) -> Result<Vec<Leaving>, Fault> {
    let lines = diesel::sql_query(
        "SELECT id AS task, tenant, rev FROM tasks INDEXED BY tasks_ended
         WHERE finished_at IS NOT NULL AND task_type = ? AND status = ? AND finished_at <= ?
         ORDER BY finished_at LIMIT ?",
    )
    .bind::<Text, _>(task_type)
    .bind::<Text, _>(status.as_str())
    .bind::<BigInt, _>(until)
    .bind::<BigInt, _>(i64::from(limit))
    .load(connection)?;
    Ok(decoded(lines))
}

/// Deletes all rows of a task that has ended, is at this revision, and of which others have been told all. Whether it was.
pub(super) fn bury(connection: &mut SqliteConnection, task: &Leaving, now: i64) -> Result<bool, Fault> {
    let id = task.task.to_string();
    let buried = diesel::sql_query(
        "INSERT INTO tombstones (task, tenant, at) SELECT id, tenant, ?3 FROM tasks
         WHERE id = ?1 AND rev = ?2 AND status IN ('completed', 'failed', 'cancelled', 'resolved')
           AND NOT EXISTS (SELECT 1 FROM outbox WHERE task = ?1 AND kind = 'events' AND published_at IS NULL)
         ON CONFLICT DO NOTHING",
    )
    .bind::<Text, _>(&id)
    .bind::<BigInt, _>(task.rev.0)
    .bind::<BigInt, _>(now)
    .execute(connection)?;
    if buried == 0 {
        return Ok(false);
    }
    // The task last: steps and audit refer to it.
    for text in [
        "DELETE FROM steps WHERE task = ?",
        "DELETE FROM attempts WHERE task = ?",
        "DELETE FROM audit WHERE task = ?",
        "DELETE FROM outbox WHERE task = ?",
        "DELETE FROM idempotency WHERE task = ?",
        "DELETE FROM tasks WHERE id = ?",
    ] {
        diesel::sql_query(text).bind::<Text, _>(&id).execute(connection)?;
    }
    Ok(true)
}

/// The oldest tombstones.
pub(super) fn buried(connection: &mut SqliteConnection, limit: u32) -> Result<Vec<Leaving>, Fault> {
    let lines = diesel::sql_query("SELECT task, tenant, 0 AS rev FROM tombstones ORDER BY at, task LIMIT ?")
        .bind::<BigInt, _>(i64::from(limit))
        .load(connection)?;
    Ok(decoded(lines))
}

/// Removes a tombstone.
pub(super) fn forget(connection: &mut SqliteConnection, task: TaskId) -> QueryResult<()> {
    diesel::sql_query("DELETE FROM tombstones WHERE task = ?")
        .bind::<Text, _>(task.to_string())
        .execute(connection)
        .map(drop)
}
