//! Tasks that are ready to be claimed and that no host has claimed: their message may be lost. Must
//! not dispatch them again.

use super::fault::{Fault, micros};
use super::prepared::Prepare;
use super::tasks::known;
use crate::rows::HeadRow;
use counterstep_kernel::ports::Unclaimed;
use diesel::SqliteConnection;
use diesel::sql_types::{BigInt, Text};

// As in `tasks`: the conditions are literally those of the partial indexes.

const UNCLAIMED: &str =
    "SELECT updated_at AS since, id, tenant, task_type, version, status, rev FROM tasks INDEXED BY tasks_unclaimed
    WHERE lease_owner IS NULL
      AND (status IN ('submitted', 'dispatched') OR (status = 'compensating' AND due_at IS NULL))
      AND queue = ?1 AND updated_at <= ?2 - ?3
      AND (due_at IS NULL OR updated_at <= ?2 - min(max(updated_at - due_at, ?3), ?4))
      AND task_type || '/' || version || '/' || definition_hash IN (SELECT value FROM json_each(?5))
    ORDER BY updated_at";

const DUE: &str = "SELECT updated_at AS since, id, tenant, task_type, version, status, rev FROM tasks INDEXED BY tasks_due
    WHERE lease_owner IS NULL AND due_at IS NOT NULL AND status IN ('waiting', 'compensating')
      AND waiting IS NOT 'version' AND queue = ?1 AND due_at <= ?2 - ?3 AND updated_at <= ?2 - min(max(updated_at - due_at, ?3), ?4)
      AND task_type || '/' || version || '/' || definition_hash IN (SELECT value FROM json_each(?5))
    ORDER BY updated_at";

/// Queue by queue; those that have changed least lately are to be picked out.
pub(super) fn find(
    connection: &mut SqliteConnection,
    which: &Unclaimed,
    now: i64,
    limit: u32,
) -> Result<Vec<HeadRow>, Fault> {
    let known = known(&which.known);
    let mut lines = Vec::new();
    for queue in &which.queues {
        for query in [UNCLAIMED, DUE] {
            let found: Vec<HeadRow> = diesel::sql_query(query)
                .bind::<Text, _>(&queue.0)
                .bind::<BigInt, _>(now)
                .bind::<BigInt, _>(micros(which.for_at_least))
                .bind::<BigInt, _>(micros(which.at_most.max(which.for_at_least)))
                .bind::<Text, _>(&known)
                .load_at_most(limit, connection)?;
            lines.extend(found);
        }
    }
    Ok(lines)
}
