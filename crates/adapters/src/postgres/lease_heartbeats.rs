//! Heartbeats: statements that prolong leases, one or many.

use super::statement::{Bind, Statement, interval, values};
use counterstep_contracts::{Epoch, TaskId};
use diesel::pg::data_types::PgInterval;
use diesel::sql_types as sql;
use std::time::Duration;
use uuid::Uuid;

/// Prolongs a lease; a row says whether a cancel was requested, none that the lease is gone.
// It does not wait for the disk: after a power cut no worker holds a lease. Not
// `lease_owner IS NOT NULL`, which means the same: that is the condition of an index on all leases,
// which might be read instead of the key's.
pub(super) fn heartbeat(
    task: TaskId,
    epoch: Epoch,
    ttl: Duration,
) -> Statement<'static, sql::Bool> {
    let binds: [Bind<'static>; 3] = values![interval(ttl), task.0, epoch.0];
    Statement::of(
        "WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set)
         UPDATE tasks SET lease_expires_at = now() + ? FROM relaxed
         WHERE id = ? AND epoch = ? AND lease_expires_at IS NOT NULL AND relaxed.set IS NOT NULL
         RETURNING cancel_requested_at IS NOT NULL",
        binds,
    )
}

/// Prolongs leases; there is a row for each that is held. One whose row is locked, since a change of it is under way, is left
/// out: it must not block the others.
pub(super) fn heartbeats(
    beats: &[(TaskId, Epoch, Duration)],
) -> Statement<'static, (sql::Uuid, sql::BigInt, sql::Bool)> {
    let tasks: Vec<Uuid> = beats.iter().map(|(task, ..)| task.0).collect();
    let epochs: Vec<i64> = beats.iter().map(|(_, epoch, _)| epoch.0).collect();
    let ttls: Vec<PgInterval> = beats.iter().map(|(.., ttl)| interval(*ttl)).collect();
    Statement::of(
        "WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set),
           held AS (SELECT t.id, b.ttl FROM unnest(?, ?, ?) b (id, epoch, ttl) JOIN tasks t ON t.id = b.id AND t.epoch = b.epoch
             WHERE t.lease_expires_at IS NOT NULL FOR UPDATE OF t SKIP LOCKED)
         UPDATE tasks SET lease_expires_at = now() + held.ttl FROM relaxed, held
         WHERE tasks.id = held.id AND relaxed.set IS NOT NULL
         RETURNING tasks.id, tasks.epoch, tasks.cancel_requested_at IS NOT NULL",
        values![tasks, epochs, ttls],
    )
}
