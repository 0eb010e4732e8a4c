//! What the local queue looks for in the table `tasks`: tasks that wait for a host. Reads only.

use super::fault::{Fault, count, parse};
use super::prepared::Prepare;
use counterstep_contracts::{QueueName, Rev, WorkerMessage};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

/// A task that waits for a host.
#[derive(Debug, QueryableByName)]
pub(crate) struct Waiting {
    #[diesel(sql_type = Text)]
    id: String,
    #[diesel(sql_type = Text)]
    task_type: String,
    #[diesel(sql_type = BigInt)]
    version: i64,
    #[diesel(sql_type = Nullable<Text>)]
    traceparent: Option<String>,
    #[diesel(sql_type = BigInt)]
    rev: i64,
    /// The order: since when it has been waiting.
    #[diesel(sql_type = BigInt)]
    pub(crate) since: i64,
}

impl Waiting {
    /// The message for its host.
    pub(crate) fn decode(self) -> Result<WorkerMessage, Fault> {
        Ok(WorkerMessage {
            task: parse("id", &self.id)?,
            tenant: None,
            task_type: self.task_type,
            version: count("version", self.version)?,
            rev: Rev(self.rev),
            traceparent: self.traceparent,
            outputs: serde_json::Map::new(),
        })
    }
}

/// Tasks of a queue that no host has, the longest waiting first.
// The conditions are literally those of the index, as in the other queries for due tasks.
pub(crate) fn unclaimed(
    connection: &mut SqliteConnection,
    queue: &QueueName,
    limit: u32,
) -> QueryResult<Vec<Waiting>> {
    diesel::sql_query(
        "SELECT id, task_type, version, traceparent, rev, updated_at AS since
         FROM tasks INDEXED BY tasks_unclaimed
         WHERE lease_owner IS NULL
           AND (status IN ('submitted', 'dispatched') OR (status = 'compensating' AND due_at IS NULL))
           AND queue = ?
         ORDER BY updated_at",
    )
    .bind::<Text, _>(&queue.0)
    .load_at_most(limit, connection)
}

/// Tasks of a queue that no host has and whose due time has come, the longest due first. Not those
/// that wait for another version of a host.
pub(crate) fn due(
    connection: &mut SqliteConnection,
    queue: &QueueName,
    now: i64,
    limit: u32,
) -> QueryResult<Vec<Waiting>> {
    diesel::sql_query(
        "SELECT id, task_type, version, traceparent, rev, due_at AS since
         FROM tasks INDEXED BY tasks_due
         WHERE lease_owner IS NULL AND due_at IS NOT NULL AND status IN ('waiting', 'compensating')
           AND waiting IS NOT 'version' AND queue = ? AND due_at <= ?
         ORDER BY due_at",
    )
    .bind::<Text, _>(&queue.0)
    .bind::<BigInt, _>(now)
    .load_at_most(limit, connection)
}

/// Tasks of a queue whose host is lost, and that no reconciler has taken in hand since its lease
/// ran out.
pub(crate) fn lost(
    connection: &mut SqliteConnection,
    queue: &QueueName,
    before: i64,
    now: i64,
    limit: u32,
) -> QueryResult<Vec<Waiting>> {
    diesel::sql_query(
        "SELECT id, task_type, version, traceparent, rev, lease_expires_at AS since
         FROM tasks INDEXED BY tasks_leased
         WHERE lease_owner IS NOT NULL AND lease_expires_at <= ? AND queue = ?
           AND status IN ('running', 'compensating')
           AND (held_until IS NULL OR held_until <= ? OR held_epoch <> epoch)
         ORDER BY lease_expires_at",
    )
    .bind::<BigInt, _>(before)
    .bind::<Text, _>(&queue.0)
    .bind::<BigInt, _>(now)
    .load_at_most(limit, connection)
}
