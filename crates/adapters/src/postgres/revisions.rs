//! At which revisions tasks are. Must not read what a task holds.

use super::fault::{Fault, name};
use super::statement::{Statement, Str, time, values, written};
use super::states::{open, states};
use counterstep_contracts::{Rev, TaskId};
use counterstep_kernel::ports::{Revisions, RevisionsOf, TaskRevision};
use diesel::pg::data_types::PgTimestamp;
use diesel::sql_types as sql;
use uuid::Uuid;

pub(super) type RevisionTypes = (
    sql::Timestamptz,
    sql::Nullable<sql::Uuid>,
    sql::Nullable<sql::BigInt>,
    sql::Nullable<sql::Timestamptz>,
);

/// A row: the server's time, and a task with its revision. One row has the time alone.
pub(super) type RevisionRead = (PgTimestamp, Option<Uuid>, Option<i64>, Option<PgTimestamp>);

macro_rules! with_the_time {
    ($tasks:expr) => {
        concat!(
            "SELECT now(), NULL::uuid AS id, NULL::bigint, NULL::timestamptz AS at UNION ALL ",
            $tasks
        )
    };
}

/// Those that are asked for.
pub(super) fn of(of: &RevisionsOf) -> Result<Statement<'_, RevisionTypes>, Fault> {
    Ok(match of {
        RevisionsOf::Tasks(tasks) => {
            let tasks: Vec<Uuid> = tasks.iter().map(|task| task.0).collect();
            Statement::of(
                with_the_time!("SELECT now(), id, rev, updated_at FROM tasks WHERE id = ANY(?)"),
                values![tasks],
            )
        }
        RevisionsOf::TaskOf(tenant, task) => Statement::of(
            with_the_time!(
                "SELECT now(), id, rev, updated_at FROM tasks WHERE id = ? AND tenant = ?"
            ),
            values![task.0, name("tasks.tenant", &tenant.0)?],
        ),
        RevisionsOf::Open(tenant) => Statement::of(
            concat!(
                with_the_time!(
                    "SELECT now(), t.id, t.rev, t.updated_at FROM unnest(?) AS s (status)
                     JOIN tasks t ON t.status = s.status AND t.tenant = ? AND t.version > 0 AND "
                ),
                open!()
            ),
            values![states(false), name("tasks.tenant", &tenant.0)?],
        ),
        RevisionsOf::Ended {
            tenant,
            task_types,
            after: (at, task),
            limit,
        } => {
            let types = task_types.iter().map(|of| name("tasks.task_type", of));
            let types = types.collect::<Result<Vec<Str<'_>>, _>>()?;
            let limit = i64::from(*limit);
            // Type by type and state by state, each along its index.
            Statement::of(
                with_the_time!(
                    "(SELECT now(), d.id, d.rev, d.finished_at FROM unnest(?) AS y (task_type)
                     CROSS JOIN unnest(?) AS s (status) CROSS JOIN LATERAL (
                       SELECT id, rev, finished_at FROM tasks
                       WHERE finished_at IS NOT NULL AND task_type = y.task_type AND status = s.status
                         AND (finished_at, id) > (?, ?) AND tenant = ?
                       ORDER BY finished_at, id LIMIT ?) d
                     ORDER BY d.finished_at, d.id LIMIT ?)"
                ),
                values![
                    types,
                    states(true),
                    Some(written(*at)),
                    task.0,
                    name("tasks.tenant", &tenant.0)?,
                    limit,
                    limit
                ],
            )
        }
    })
}

/// What [`of`] has read.
pub(super) fn decode(rows: Vec<RevisionRead>) -> Result<Revisions, Fault> {
    let none = || Fault::Corrupt("the server gave no time".to_owned());
    let now = rows.first().map(|row| time(row.0)).ok_or_else(none)?;
    let task = |(_, task, rev, at): RevisionRead| {
        Some(TaskRevision {
            task: TaskId(task?),
            rev: Rev(rev?),
            at: time(at?),
        })
    };
    let mut tasks: Vec<_> = rows.into_iter().filter_map(task).collect();
    // The server owes no order to the halves of a union.
    tasks.sort_unstable_by_key(|found| (found.at, found.task));
    Ok(Revisions { now, tasks })
}
