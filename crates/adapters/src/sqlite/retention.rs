//! Deleting tasks that have ended: all their rows in one transaction, and a tombstone that stays
//! for their objects. The one place that deletes a task or a row of a journal.

use super::fault::Fault;
use super::prepared::Prepare;
use super::tasks::id_list;
use crate::rows::{EndedRow, HeadRow, readable};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::ports::EndedTask;
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

/// What must not be true of a task that is to go, at the time `?1`: others have not been told all
/// of it, a repetition of its request would become a second task, or a task above it may yet undo it.
macro_rules! free_to_go {
    () => {
        "NOT EXISTS (SELECT 1 FROM outbox o WHERE o.task = tasks.id)
           AND NOT EXISTS (SELECT 1 FROM idempotency i WHERE i.task = tasks.id AND i.expires_at > ?1)
           AND NOT EXISTS (WITH RECURSIVE above (task) AS (
               SELECT c.parent FROM children c WHERE c.task = tasks.id
               UNION SELECT c.parent FROM above a JOIN children c ON c.task = a.task)
             SELECT 1 FROM above a JOIN tasks p ON p.id = a.task
             WHERE p.status NOT IN ('completed', 'failed', 'cancelled', 'resolved'))"
    };
}

/// Tasks of a type and state that ended until a time; after a task where one is given.
pub(super) struct Ended<'a> {
    pub(super) task_type: &'a str,
    pub(super) status: TaskStatus,
    pub(super) until: i64,
    pub(super) after: Option<TaskId>,
}

/// Those that ended first.
pub(super) fn ended(
    connection: &mut SqliteConnection,
    which: Ended<'_>,
    now: i64,
    limit: u32,
) -> QueryResult<Vec<HeadRow>> {
    diesel::sql_query(concat!(
        "SELECT finished_at AS since, id, tenant, task_type, version, status, rev FROM tasks INDEXED BY tasks_ended
         WHERE finished_at IS NOT NULL AND task_type = ?2 AND status = ?3 AND finished_at <= ?4
           AND (?5 IS NULL OR (finished_at, id) > (SELECT l.finished_at, l.id FROM tasks l WHERE l.id = ?5))
           AND ",
        free_to_go!(),
        " ORDER BY finished_at, id",
    ))
    .bind::<BigInt, _>(now)
    .bind::<Text, _>(which.task_type)
    .bind::<Text, _>(which.status.as_str())
    .bind::<BigInt, _>(which.until)
    .bind::<Nullable<Text>, _>(which.after.map(|task| task.to_string()))
    .load_at_most(limit, connection)
}

/// Deletes all rows of a task that has ended, is at this revision, and is free to go. Whether it
/// was.
pub(super) fn purge(
    connection: &mut SqliteConnection,
    task: &EndedTask,
    now: i64,
) -> Result<bool, Fault> {
    let id = task.task.to_string();
    let purged = diesel::sql_query(concat!(
        "INSERT INTO tombstones (task, tenant, at) SELECT id, tenant, ?1 FROM tasks
         WHERE id = ?2 AND rev = ?3 AND status IN ('completed', 'failed', 'cancelled', 'resolved')
           AND ",
        free_to_go!(),
        " ON CONFLICT DO NOTHING",
    ))
    .bind::<BigInt, _>(now)
    .bind::<Text, _>(&id)
    .bind::<BigInt, _>(task.rev.0)
    .execute(connection)?;
    if purged == 0 {
        return Ok(false);
    }
    // The task last: its journal refers to it.
    for text in [
        "DELETE FROM task_labels WHERE (tenant, name, value, task) IN (SELECT t.tenant, l.key, l.value, t.id
           FROM tasks t JOIN json_each(CASE WHEN json_valid(t.labels) THEN t.labels ELSE '{}' END) l WHERE t.id = ?)",
        "DELETE FROM children WHERE task = ?1 OR parent = ?1",
        "DELETE FROM journal WHERE task = ?",
        "DELETE FROM task_logs WHERE task = ?",
        "DELETE FROM outbox WHERE task = ?",
        "DELETE FROM idempotency WHERE task = ?",
        "DELETE FROM tasks WHERE id = ?",
    ] {
        diesel::sql_query(text)
            .bind::<Text, _>(&id)
            .execute(connection)?;
    }
    Ok(true)
}

/// The oldest tombstones.
pub(super) fn tombstones(
    connection: &mut SqliteConnection,
    limit: u32,
) -> Result<Vec<EndedTask>, Fault> {
    let rows = diesel::sql_query("SELECT task, tenant, 0 AS rev FROM tombstones ORDER BY at, task")
        .load_at_most(limit, connection)?;
    Ok(readable(rows, "a task", EndedRow::decode))
}

/// The tombstones of these tasks.
pub(super) fn tombstones_of(
    connection: &mut SqliteConnection,
    tasks: &[TaskId],
) -> Result<Vec<EndedTask>, Fault> {
    let rows = diesel::sql_query(
        "SELECT task, tenant, 0 AS rev FROM tombstones WHERE task IN (SELECT value FROM json_each(?))",
    )
    .bind::<Text, _>(id_list(tasks))
    .load(connection)?;
    Ok(readable(rows, "a task", EndedRow::decode))
}

/// Removes a tombstone.
pub(super) fn forget(connection: &mut SqliteConnection, task: TaskId) -> QueryResult<()> {
    diesel::sql_query("DELETE FROM tombstones WHERE task = ?")
        .bind::<Text, _>(task.to_string())
        .execute(connection)
        .map(drop)
}
