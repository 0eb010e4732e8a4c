//! Deleting tasks that have ended: all their rows in one statement, and a tombstone that stays for
//! their objects. The one place that deletes a task or a row of a journal.

use super::fault::{Fault, name};
use super::statement::{Statement, look_back, values};
use crate::rows::{EndedTypes, HeadTypes};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::ports::EndedTask;
use std::time::Duration;
use uuid::Uuid;

/// What must not be true of the task `k` that is to go: others have not been told all of it, or a
/// repetition of its request would become a second task.
/// Nor may a task above it be open, which may yet have to undo it.
// Of a `NOT EXISTS` the server may make a table of all its rows first; with a limit it looks task
// by task.
macro_rules! free_to_go {
    () => {
        "(SELECT 1 FROM outbox o WHERE o.task = k.id LIMIT 1) IS NULL
           AND (SELECT 1 FROM idempotency i WHERE i.task = k.id AND i.expires_at > now() LIMIT 1) IS NULL
           AND (WITH RECURSIVE above (task) AS (
               SELECT c.parent FROM children c WHERE c.task = k.id
               UNION SELECT c.parent FROM above a JOIN children c ON c.task = a.task)
             SELECT 1 FROM above a JOIN tasks p ON p.id = a.task
             WHERE p.status NOT IN ('completed', 'failed', 'cancelled', 'resolved') LIMIT 1) IS NULL"
    };
}

/// The tasks of a type and state that ended first, at least `before` ago; where `after` is given, only those behind it.
pub(super) fn ended(
    task_type: &str,
    status: TaskStatus,
    before: Duration,
    after: Option<TaskId>,
    limit: u32,
) -> Result<Statement<'_, HeadTypes>, Fault> {
    let mut statement = Statement::of(
        concat!(
            "SELECT k.id, k.tenant, k.task_type, k.version, k.status, k.rev, k.finished_at FROM tasks k
         WHERE k.finished_at IS NOT NULL AND k.task_type = ? AND k.status = ? AND k.finished_at <= now() - ?
           AND ",
            free_to_go!()
        ),
        values![name("tasks.task_type", task_type)?, status.as_str(), look_back(before)],
    );
    if let Some(after) = after {
        // The first half says less than the second, but in words that begin where they should in
        // the index.
        let later = " AND k.finished_at >= (SELECT l.finished_at FROM tasks l WHERE l.id = ?)
           AND (k.finished_at, k.id) > (SELECT l.finished_at, l.id FROM tasks l WHERE l.id = ?)";
        statement.push(later, values![after.0, after.0]);
    }
    statement.push(
        " ORDER BY k.finished_at, k.id LIMIT ?",
        values![i64::from(limit)],
    );
    Ok(statement)
}

/// Deletes all rows of those that have ended, are at these revisions, and are free to go; gives
/// them.
// Those that another transaction holds stay for the next pass.
pub(super) fn purge(tasks: &[EndedTask]) -> Statement<'static, EndedTypes> {
    let mut sorted: Vec<(Uuid, i64)> = tasks.iter().map(|task| (task.task.0, task.rev.0)).collect();
    sorted.sort_unstable();
    let (ids, revs): (Vec<Uuid>, Vec<i64>) = sorted.into_iter().unzip();
    Statement::of(
        concat!(
            "WITH asked AS MATERIALIZED (
           SELECT k.id FROM unnest(?, ?) AS u (task, rev) JOIN tasks k ON k.id = u.task AND k.rev = u.rev
           WHERE k.status IN ('completed', 'failed', 'cancelled', 'resolved')
             AND ",
            free_to_go!(),
            "
           ORDER BY k.id FOR UPDATE OF k SKIP LOCKED),
         gone AS (DELETE FROM tasks USING asked WHERE tasks.id = asked.id RETURNING tasks.id, tasks.tenant, tasks.rev, tasks.labels),
         gone_labels AS (DELETE FROM task_labels x USING gone CROSS JOIN LATERAL
           json_each_text(CASE WHEN json_typeof(gone.labels) = 'object' THEN gone.labels END) AS l (key, value)
           WHERE x.tenant = gone.tenant AND x.name = l.key AND x.value = l.value AND x.task = gone.id),
         gone_receives AS (DELETE FROM receives USING gone WHERE receives.task = gone.id),
         gone_children AS (DELETE FROM children USING gone WHERE children.task = gone.id OR children.parent = gone.id),
         gone_logs AS (DELETE FROM task_logs USING gone WHERE task_logs.task = gone.id),
         gone_journal AS (DELETE FROM journal USING gone WHERE journal.task = gone.id),
         gone_outbox AS (DELETE FROM outbox USING gone WHERE outbox.task = gone.id),
         gone_keys AS (DELETE FROM idempotency USING gone WHERE idempotency.task = gone.id),
         marks AS (INSERT INTO tombstones (task, tenant, at) SELECT id, tenant, now() FROM gone)
         SELECT id, tenant, rev FROM gone"
        ),
        values![ids, revs],
    )
}

/// The oldest tombstones.
pub(super) fn tombstones(limit: u32) -> Statement<'static, EndedTypes> {
    Statement::of(
        "SELECT task, tenant, 0::bigint FROM tombstones ORDER BY at, task LIMIT ?",
        values![i64::from(limit)],
    )
}

/// Those of these tasks that have one.
pub(super) fn tombstones_of(tasks: &[TaskId]) -> Statement<'static, EndedTypes> {
    let ids: Vec<Uuid> = tasks.iter().map(|task| task.0).collect();
    Statement::of(
        "SELECT task, tenant, 0::bigint FROM tombstones WHERE task = ANY(?)",
        values![ids],
    )
}

/// Removes tombstones.
pub(super) fn forget(tasks: &[TaskId]) -> Statement<'static, EndedTypes> {
    let mut ids: Vec<Uuid> = tasks.iter().map(|task| task.0).collect();
    ids.sort_unstable();
    Statement::of(
        "DELETE FROM tombstones WHERE task = ANY(?) RETURNING task, tenant, 0::bigint",
        values![ids],
    )
}
