//! Queries that find tasks: those that are due or lost, and counts of what is in flight. Must not decide what becomes of a task that it finds.

use crate::rows::{HeadRow, InFlightRow, each, readable};
use crate::sqlite::fault::{Fault, micros};
use crate::sqlite::prepared::Prepare;
use crate::sqlite::retention::{self, Ended};
use crate::sqlite::revisions::states;
use crate::sqlite::{children, unclaimed};
use counterstep_contracts::{QueueName, TaskId};
use counterstep_kernel::ports::{Find, InFlight, KnownType, Lost, LostOf, TaskHead};
use counterstep_steps::times::DbTime;
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

// The conditions of the due queries are literal and the same as in the partial indexes: SQLite uses
// such an index only when it can prove, while it prepares the statement, that the index holds every
// row that is asked for. `INDEXED BY` makes that an error where it cannot; left to choose, it takes
// the list's index on the status and sorts the backlog.

/// Tasks that are looked for.
pub(in super::super) fn find(
    connection: &mut SqliteConnection,
    now: i64,
    what: &Find,
    limit: u32,
) -> Result<Vec<TaskHead>, Fault> {
    let rows = match what {
        Find::Claimable {
            queues,
            known,
            unclaimed_for,
            after,
        } => {
            let before = now - micros(*unclaimed_for);
            claimable(connection, queues, known, before, now, *after, limit)?
        }
        Find::Lost(which) => lost(connection, which, now, limit)?,
        Find::Unclaimed(which) => {
            let mut rows = unclaimed::find(connection, which, now, limit)?;
            rows.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
            rows
        }
        Find::Parents(known) => children::parents(connection, known, now, limit)?,
        Find::ToSweep => to_sweep(connection, now, limit)?,
        Find::Reserved(task) => reserved(connection, *task, now)?,
        Find::Ended {
            task_type,
            status,
            before,
            after,
        } => {
            let which = Ended {
                task_type,
                status: *status,
                until: now - micros(*before),
                after: *after,
            };
            retention::ended(connection, which, now, limit)?
        }
    };
    let mut found = readable(rows, "a task that was found", HeadRow::decode);
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found)
}

/// Those that a sweep is to look at, the longest due first.
fn to_sweep(connection: &mut SqliteConnection, now: i64, limit: u32) -> QueryResult<Vec<HeadRow>> {
    diesel::sql_query(
        "SELECT sweep_at AS since, id, tenant, task_type, version, status, rev FROM tasks INDEXED BY tasks_to_sweep
         WHERE sweep_at IS NOT NULL AND sweep_at <= ? ORDER BY sweep_at",
    )
    .bind::<BigInt, _>(now)
    .load_at_most(limit, connection)
}

/// Unleased, and unclaimed since `before` or with a due time that has come; behind a place in their order.
// Queue by queue, each in the order of its index: asked for all queues at once, SQLite would read
// and sort the whole backlog for every poll.
fn claimable(
    connection: &mut SqliteConnection,
    queues: &[QueueName],
    of: &[KnownType],
    before: i64,
    now: i64,
    after: Option<(DbTime, TaskId)>,
    limit: u32,
) -> QueryResult<Vec<HeadRow>> {
    let of = known(of);
    let after = after.map_or((i64::MIN, String::new()), |(since, task)| {
        (since.0, task.to_string())
    });
    let mut lines = Vec::new();
    for queue in queues {
        lines.extend(unclaimed(connection, queue, &of, &after, before, limit)?);
        lines.extend(due(connection, queue, &of, &after, now, limit)?);
    }
    lines.sort_by(|a, b| (a.since, &a.id).cmp(&(b.since, &b.id)));
    Ok(lines)
}

/// Unleased, and unclaimed since `before`.
// Compensating tasks without a due time are among them: a cancel of an unleased task writes one
// with a message, and that message can be lost like any other.
fn unclaimed(
    connection: &mut SqliteConnection,
    queue: &QueueName,
    known: &str,
    (after, id): &(i64, String),
    before: i64,
    limit: u32,
) -> QueryResult<Vec<HeadRow>> {
    diesel::sql_query(
        "SELECT updated_at AS since, id, tenant, task_type, version, status, rev FROM tasks INDEXED BY tasks_unclaimed
         WHERE lease_owner IS NULL
           AND (status IN ('submitted', 'dispatched') OR (status = 'compensating' AND due_at IS NULL))
           AND queue = ? AND updated_at <= ? AND (updated_at, id) > (?, ?)
           AND task_type || '/' || version || '/' || definition_hash IN (SELECT value FROM json_each(?))
         ORDER BY updated_at, id",
    )
    .bind::<Text, _>(&queue.0)
    .bind::<BigInt, _>(before)
    .bind::<BigInt, _>(after)
    .bind::<Text, _>(id)
    .bind::<Text, _>(known)
    .load_at_most(limit, connection)
}

/// Unleased, with a due time that has come.
fn due(
    connection: &mut SqliteConnection,
    queue: &QueueName,
    known: &str,
    (after, id): &(i64, String),
    now: i64,
    limit: u32,
) -> QueryResult<Vec<HeadRow>> {
    diesel::sql_query(
        "SELECT due_at AS since, id, tenant, task_type, version, status, rev FROM tasks INDEXED BY tasks_due
         WHERE lease_owner IS NULL AND due_at IS NOT NULL AND status IN ('waiting', 'compensating')
           AND queue = ? AND due_at <= ? AND (due_at, id) > (?, ?)
           AND task_type || '/' || version || '/' || definition_hash IN (SELECT value FROM json_each(?))
         ORDER BY due_at, id",
    )
    .bind::<Text, _>(&queue.0)
    .bind::<BigInt, _>(now)
    .bind::<BigInt, _>(after)
    .bind::<Text, _>(id)
    .bind::<Text, _>(known)
    .load_at_most(limit, connection)
}

/// With a lease that has run out, and that no reconciler has reserved.
fn lost(
    connection: &mut SqliteConnection,
    which: &Lost,
    now: i64,
    limit: u32,
) -> QueryResult<Vec<HeadRow>> {
    let (whose, types) = match &which.of {
        LostOf::All => ("?4 = ?4", String::new()),
        LostOf::These(these) => (
            "task_type || '/' || version || '/' || definition_hash IN (SELECT value FROM json_each(?4))",
            known(these),
        ),
        LostOf::Others(these) => (
            "task_type || '/' || version || '/' || definition_hash NOT IN (SELECT value FROM json_each(?4))",
            known(these),
        ),
    };
    diesel::sql_query(format!(
        "SELECT lease_expires_at AS since, id, tenant, task_type, version, status, rev FROM tasks INDEXED BY tasks_leased
         WHERE lease_owner IS NOT NULL AND lease_expires_at <= ?1 AND status IN ('running', 'compensating')
           AND (held_until IS NULL OR held_until <= ?2 OR held_epoch <> epoch)
           AND (?3 IS NULL OR task_type = ?3) AND {whose}
         ORDER BY lease_expires_at"
    ))
    .bind::<BigInt, _>(now - micros(which.stale_after))
    .bind::<BigInt, _>(now)
    .bind::<Nullable<Text>, _>(&which.task_type)
    .bind::<Text, _>(types)
    .load_at_most(limit, connection)
}

/// A lost task that a reconciler has reserved, and until when.
fn reserved(
    connection: &mut SqliteConnection,
    task: TaskId,
    now: i64,
) -> QueryResult<Vec<HeadRow>> {
    diesel::sql_query(
        "SELECT held_until AS since, id, tenant, task_type, version, status, rev FROM tasks
         WHERE id = ?1 AND lease_owner IS NOT NULL AND lease_expires_at <= ?2 AND held_until > ?2 AND held_epoch = epoch",
    )
    .bind::<Text, _>(task.to_string())
    .bind::<BigInt, _>(now)
    .prepared()
    .load(connection)
}

/// Tasks that have not ended, and completed ones that such a task above them may undo yet, by type, version,
/// definition and queue; parked and completed ones wait on none. The states are asked for one by one, along the
/// list's index: tasks that have ended are most of the table.
pub(in super::super) fn in_flight(
    connection: &mut SqliteConnection,
) -> Result<Vec<InFlight>, Fault> {
    let groups = diesel::sql_query(
        "WITH RECURSIVE needed (id, task_type, version, definition_hash, queue) AS (
           SELECT id, task_type, version, definition_hash,
             CASE WHEN status IN ('dead_lettered', 'compensation_failed') THEN '' ELSE queue END
           FROM tasks INDEXED BY tasks_by_status WHERE status IN (SELECT value FROM json_each(?))
           UNION ALL SELECT t.id, t.task_type, t.version, t.definition_hash, ''
           FROM needed n CROSS JOIN children c ON c.parent = n.id CROSS JOIN tasks t ON t.id = c.task
           WHERE t.status = 'completed')
         SELECT task_type, version, definition_hash, queue, count(*) AS tasks, min(id) AS example FROM needed
         GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
    )
    .bind::<Text, _>(states(false))
    .prepared()
    .load(connection)?;
    Ok(each(groups, InFlightRow::decode)?)
}

/// Types, as queries compare them: a JSON list of `name/version/definition`.
pub(in super::super) fn known(types: &[KnownType]) -> String {
    let names: Vec<String> = types.iter().map(KnownType::key).collect();
    serde_json::json!(names).to_string()
}
