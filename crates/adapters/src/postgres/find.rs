//! Statements that find tasks. A search locks nothing: a scan that locked its rows would write to each of them, and the claim
//! that follows, a change of the row in `tasks`, is judged anew in any case.

use super::fault::{Fault, name};
use super::retention;
use super::statement::{Bind, Statement, Str, look_back, values, written};
use super::states::{open, states};
use crate::rows::{HeadTypes, InFlightTypes};
use counterstep_contracts::{QueueName, TaskId};
use counterstep_kernel::ports::{Find, KnownType, Lost, LostOf, Unclaimed};
use counterstep_steps::times::DbTime;
use std::time::Duration;
use uuid::Uuid;

/// Tasks that are looked for.
pub(super) fn find(what: &Find, limit: u32) -> Result<Statement<'_, HeadTypes>, Fault> {
    match what {
        Find::Claimable {
            queues,
            known,
            unclaimed_for,
            after,
        } => claimable(queues, known, *unclaimed_for, *after, limit),
        Find::Lost(which) => lost(which, limit),
        Find::Unclaimed(which) => unclaimed(which, limit),
        Find::Parents(known) => Ok(parents(known, limit)),
        Find::ToSweep => Ok(to_sweep(limit)),
        Find::Reserved(task) => Ok(reserved(*task)),
        Find::Ended {
            task_type,
            status,
            before,
            after,
        } => retention::ended(task_type, *status, *before, *after, limit),
    }
}

/// Tasks that a sweep is to look at.
fn to_sweep(limit: u32) -> Statement<'static, HeadTypes> {
    Statement::of(
        "SELECT id, tenant, task_type, version, status, rev, sweep_at FROM tasks
         WHERE sweep_at <= now() ORDER BY sweep_at LIMIT ?",
        values![i64::from(limit)],
    )
}

// Queue by queue and kind by kind, each along its index and no further than the limit. The
// conditions are literally those of the partial indexes: the server uses such an index only where
// it can prove that it holds every row asked for.
const CLAIMABLE: &str = "SELECT d.id, d.tenant, d.task_type, d.version, d.status, d.rev, d.since
    FROM unnest(?) AS q (queue) CROSS JOIN LATERAL (
      (SELECT unclaimed_since AS since, id, tenant, task_type, version, status, rev FROM tasks
       WHERE unclaimed_since IS NOT NULL AND queue = q.queue AND unclaimed_since <= now() - ?
         AND (unclaimed_since, id) > (?, ?) AND task_type || '/' || version || '/' || definition_hash = ANY(?)
       ORDER BY unclaimed_since, id LIMIT ?)
      UNION ALL
      (SELECT due_at AS since, id, tenant, task_type, version, status, rev FROM tasks
       WHERE lease_owner IS NULL AND due_at IS NOT NULL AND status IN ('waiting', 'compensating')
         AND queue = q.queue AND due_at <= now() AND (due_at, id) > (?, ?)
         AND task_type || '/' || version || '/' || definition_hash = ANY(?)
       ORDER BY due_at, id LIMIT ?)) d
    ORDER BY d.since, d.id LIMIT ?";

/// Unleased, and unclaimed for a while, or with a due time that has come.
fn claimable<'a>(
    queues: &'a [QueueName],
    known: &'a [KnownType],
    unclaimed_for: Duration,
    after: Option<(DbTime, TaskId)>,
    limit: u32,
) -> Result<Statement<'a, HeadTypes>, Fault> {
    let queues = queues
        .iter()
        .map(|queue| name("tasks.queue", &queue.0))
        .collect::<Result<Vec<_>, _>>()?;
    let types = || {
        known
            .iter()
            .map(|known| known.key().into())
            .collect::<Vec<Str<'a>>>()
    };
    let (age, limit) = (look_back(unclaimed_for), i64::from(limit));
    // No task is as old as the first of these.
    let (since, id) = after.map_or((DbTime(0), Uuid::nil()), |(since, task)| (since, task.0));
    let since = || Bind::Time(Some(written(since)));
    let binds = values![
        queues,
        age,
        since(),
        id,
        types(),
        limit,
        since(),
        id,
        types(),
        limit,
        limit
    ];
    Ok(Statement::of(CLAIMABLE, binds))
}

/// With a lease that has run out.
fn lost(which: &Lost, limit: u32) -> Result<Statement<'_, HeadTypes>, Fault> {
    let mut statement = Statement::of(
        "SELECT id, tenant, task_type, version, status, rev, lease_expires_at FROM tasks
         WHERE lease_owner IS NOT NULL AND lease_expires_at <= now() - ? AND status IN ('running', 'compensating')
           AND (held_until IS NULL OR held_until <= now() OR held_epoch <> epoch)",
        values![look_back(which.stale_after)],
    );
    if let Some(task_type) = &which.task_type {
        statement.push(
            " AND task_type = ?",
            values![name("tasks.task_type", task_type)?],
        );
    }
    let keys = |known: &[KnownType]| {
        known
            .iter()
            .map(|known| known.key().into())
            .collect::<Vec<Str<'static>>>()
    };
    match &which.of {
        LostOf::All => {}
        LostOf::These(known) => {
            statement.push(
                " AND task_type || '/' || version || '/' || definition_hash = ANY(?)",
                values![keys(known)],
            );
        }
        LostOf::Others(known) => {
            statement.push(
                " AND NOT task_type || '/' || version || '/' || definition_hash = ANY(?)",
                values![keys(known)],
            );
        }
    }
    statement.push(
        " ORDER BY lease_expires_at LIMIT ?",
        values![i64::from(limit)],
    );
    Ok(statement)
}

const UNCLAIMED: &str =
    "SELECT d.id, d.tenant, d.task_type, d.version, d.status, d.rev, d.updated_at
    FROM unnest(?) AS q (queue) CROSS JOIN LATERAL (
      (SELECT updated_at, id, tenant, task_type, version, status, rev FROM tasks
       WHERE unclaimed_since IS NOT NULL AND queue = q.queue AND unclaimed_since <= now() - ?
         AND (due_at IS NULL OR updated_at <= now() - least(greatest(updated_at - due_at, ?), ?))
         AND task_type || '/' || version || '/' || definition_hash = ANY(?)
       ORDER BY unclaimed_since LIMIT ?)
      UNION ALL
      (SELECT updated_at, id, tenant, task_type, version, status, rev FROM tasks
       WHERE lease_owner IS NULL AND due_at IS NOT NULL AND status IN ('waiting', 'compensating')
         AND waiting IS DISTINCT FROM 'version' AND queue = q.queue AND due_at <= now() - ?
         AND updated_at <= now() - least(greatest(updated_at - due_at, ?), ?)
         AND task_type || '/' || version || '/' || definition_hash = ANY(?)
       ORDER BY updated_at LIMIT ?)) d
    ORDER BY d.updated_at, d.id LIMIT ?";

/// Offered, and unclaimed for long.
fn unclaimed(which: &Unclaimed, limit: u32) -> Result<Statement<'_, HeadTypes>, Fault> {
    let queues = which
        .queues
        .iter()
        .map(|queue| name("tasks.queue", &queue.0))
        .collect::<Result<Vec<_>, _>>()?;
    let types = || {
        which
            .known
            .iter()
            .map(|known| known.key().into())
            .collect::<Vec<Str<'_>>>()
    };
    let least = || look_back(which.for_at_least);
    let most = || look_back(which.at_most.max(which.for_at_least));
    let limit = i64::from(limit);
    let binds = values![
        queues,
        least(),
        least(),
        most(),
        types(),
        limit,
        least(),
        least(),
        most(),
        types(),
        limit,
        limit
    ];
    Ok(Statement::of(UNCLAIMED, binds))
}

/// A lost task that a reconciler has reserved, and until when.
fn reserved(task: TaskId) -> Statement<'static, HeadTypes> {
    Statement::of(
        "SELECT id, tenant, task_type, version, status, rev, held_until FROM tasks
         WHERE id = ? AND lease_owner IS NOT NULL AND lease_expires_at <= now() AND held_until > now() AND held_epoch = epoch",
        values![task.0],
    )
}

/// Tasks that have not ended, and completed ones that such a task above them may undo yet, by type, version,
/// definition and queue. Parked and completed ones wait on none.
pub(super) fn in_flight() -> Statement<'static, InFlightTypes> {
    Statement::of(
        concat!(
            "WITH RECURSIVE needed AS (
               SELECT t.id, t.task_type, t.version, t.definition_hash,
                 CASE WHEN t.status IN ('dead_lettered', 'compensation_failed') THEN '' ELSE t.queue END AS queue
               FROM unnest(?) AS s (status) JOIN tasks t ON t.status = s.status AND ",
            open!(),
            " UNION ALL SELECT t.id, t.task_type, t.version, t.definition_hash, ''
               FROM needed n JOIN children c ON c.parent = n.id JOIN tasks t ON t.id = c.task
               WHERE t.status = 'completed')
             SELECT task_type, version, definition_hash, queue, count(*), min(id::text) FROM needed
             GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
        ),
        values![states(false)],
    )
}

macro_rules! parents {
    ($which:literal) => {
        concat!(
            "(SELECT p.id, p.tenant, p.task_type, p.version, p.status, p.rev, p.updated_at FROM tasks p WHERE ",
            $which,
            " AND p.lease_owner IS NULL AND p.due_at > now()
             AND p.task_type || '/' || p.version || '/' || p.definition_hash = ANY(?)
             AND (SELECT 1 FROM children c JOIN tasks t ON t.id = c.task WHERE c.parent = p.id
               AND t.finished_at > p.updated_at - interval '10 minutes' LIMIT 1) IS NOT NULL
           ORDER BY p.updated_at LIMIT ?)"
        )
    };
}

/// Tasks asleep of which one of these has ended.
fn parents(known: &[KnownType], limit: u32) -> Statement<'_, HeadTypes> {
    let known = || {
        let keys = known.iter().map(|known| known.key().into());
        keys.collect::<Vec<Str<'_>>>()
    };
    let limit = i64::from(limit);
    Statement::of(
        concat!(
            "SELECT d.id, d.tenant, d.task_type, d.version, d.status, d.rev, d.updated_at FROM (",
            parents!("p.waiting = 'children'"),
            " UNION ALL ",
            parents!("p.status = 'compensating'"),
            ") d ORDER BY d.updated_at LIMIT ?"
        ),
        values![known(), limit, known(), limit, limit],
    )
}
