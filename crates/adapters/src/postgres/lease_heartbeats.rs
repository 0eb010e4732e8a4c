//! Heartbeats: the statement that prolongs leases, one or many, and what it says of each.

use super::fault::Fault;
use super::pool::Database;
use super::statement::{Statement, interval, values};
use counterstep_contracts::{Epoch, TaskId};
use counterstep_kernel::ports::Heartbeat;
use diesel::pg::data_types::PgInterval;
use diesel::sql_types as sql;
use std::collections::HashMap;
use std::time::Duration;
use uuid::Uuid;

/// The leases that are there, and whether a cancel was requested; `None`: the lease was not prolonged.
pub(super) struct Leases(HashMap<(Uuid, i64), Option<bool>>);

impl Leases {
    /// `None`: a change of the task is under way.
    pub(super) fn of(&self, (task, epoch, _): (TaskId, Epoch, Duration)) -> Option<Heartbeat> {
        match self.0.get(&(task.0, epoch.0)) {
            None => Some(Heartbeat::Lost),
            Some(requested) => {
                requested.map(|cancel_requested| Heartbeat::Held { cancel_requested })
            }
        }
    }
}

/// Prolongs leases, and waits for none whose task is being changed.
pub(super) async fn prolong(
    database: &Database,
    beats: &[(TaskId, Epoch, Duration)],
) -> Result<Leases, Fault> {
    let rows: Vec<(Uuid, i64, Option<bool>)> = database.relaxed(heartbeats(beats)).await?;
    let leases = rows
        .into_iter()
        .map(|(task, epoch, requested)| ((task, epoch), requested));
    Ok(Leases(leases.collect()))
}

/// Prolongs leases; there is a row for each that is there, which says whether a cancel was requested. Without that: a change of
/// the task is under way, and its lease was not prolonged. It waits for no lock: a change may wait for a standby.
// It does not wait for the disk: after a power cut no worker holds a lease. Not
// `lease_owner IS NOT NULL`, which means the same: that is the condition of an index on all leases,
// which might be read instead of the key's.
fn heartbeats(
    beats: &[(TaskId, Epoch, Duration)],
) -> Statement<'static, (sql::Uuid, sql::BigInt, sql::Nullable<sql::Bool>)> {
    let tasks: Vec<Uuid> = beats.iter().map(|(task, ..)| task.0).collect();
    let epochs: Vec<i64> = beats.iter().map(|(_, epoch, _)| epoch.0).collect();
    let ttls: Vec<PgInterval> = beats.iter().map(|(.., ttl)| interval(*ttl)).collect();
    Statement::of(
        "WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set),
           asked AS (SELECT t.id, t.epoch, b.ttl FROM unnest(?, ?, ?) b (id, epoch, ttl) JOIN tasks t ON t.id = b.id AND t.epoch = b.epoch
             WHERE t.lease_expires_at IS NOT NULL),
           held AS (SELECT t.id, a.ttl FROM asked a JOIN tasks t ON t.id = a.id AND t.epoch = a.epoch
             WHERE t.lease_expires_at IS NOT NULL FOR UPDATE OF t SKIP LOCKED),
           prolonged AS (UPDATE tasks SET lease_expires_at = now() + held.ttl FROM relaxed, held
             WHERE tasks.id = held.id AND relaxed.set IS NOT NULL
             RETURNING tasks.id, tasks.cancel_requested_at IS NOT NULL AS requested)
         SELECT asked.id, asked.epoch, prolonged.requested FROM asked LEFT JOIN prolonged ON prolonged.id = asked.id",
        values![tasks, epochs, ttls],
    )
}
