//! At which revisions tasks are. Must not read what a task holds.

use super::fault::{Fault, name};
use super::statement::{Clocked, Statement, Str, values, written};
use super::states::{open, parked_states, states};
use crate::rows::RevisionTypes;
use counterstep_kernel::ports::RevisionsOf;
use uuid::Uuid;

macro_rules! with_the_time {
    ($tasks:expr) => {
        concat!(
            "SELECT now(), NULL::uuid AS id, NULL::bigint, NULL::timestamptz AS at UNION ALL ",
            $tasks
        )
    };
}

macro_rules! ended {
    ($tenant:literal) => {
        with_the_time!(concat!(
            "(SELECT now(), d.id, d.rev, d.finished_at FROM unnest(?) AS y (task_type)
             CROSS JOIN unnest(?) AS s (status) CROSS JOIN LATERAL (
               SELECT id, rev, finished_at FROM tasks
               WHERE finished_at IS NOT NULL AND task_type = y.task_type AND status = s.status
                 AND (finished_at, id) > (?, ?)",
            $tenant,
            " ORDER BY finished_at, id LIMIT ?) d
             ORDER BY d.finished_at, d.id LIMIT ?)"
        ))
    };
}

// One state after the other, by the index: joined to all of them the database would look at each open task.
const PARKED: &str = concat!(
    with_the_time!(
        "(SELECT now(), t.id, t.rev, t.updated_at FROM unnest(?) AS s (status) CROSS JOIN LATERAL
           (SELECT t.id, t.rev, t.updated_at, t.task_type FROM tasks t WHERE t.status = s.status AND "
    ),
    open!(),
    " OFFSET 0) t
      JOIN unnest(?, ?, ?) AS y (task_type, at, task)
        ON y.task_type = t.task_type AND (t.updated_at, t.id) > (y.at, y.task)
      ORDER BY t.updated_at, t.id LIMIT ?)"
);

/// Those that are asked for.
pub(super) fn of(of: &RevisionsOf) -> Result<Statement<'_, Clocked<RevisionTypes>>, Fault> {
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
            let (at, first) = (Some(written(*at)), task.0);
            // Type by type and state by state, each along its index.
            match tenant {
                Some(tenant) => Statement::of(
                    ended!(" AND tenant = ?"),
                    values![
                        types,
                        states(true),
                        at,
                        first,
                        name("tasks.tenant", &tenant.0)?,
                        limit,
                        limit
                    ],
                ),
                None => Statement::of(
                    ended!(""),
                    values![types, states(true), at, first, limit, limit],
                ),
            }
        }
        RevisionsOf::Parked { after, limit } => {
            let types = after.keys().map(|of| name("tasks.task_type", of));
            let types = types.collect::<Result<Vec<Str<'_>>, _>>()?;
            let times: Vec<_> = after.values().map(|(at, _)| Some(written(*at))).collect();
            let tasks: Vec<Uuid> = after.values().map(|(_, task)| task.0).collect();
            Statement::of(
                PARKED,
                values![parked_states(), types, times, tasks, i64::from(*limit)],
            )
        }
    })
}
