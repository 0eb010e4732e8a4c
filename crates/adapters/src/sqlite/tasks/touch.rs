//! Moves times of tasks, and leaves their revision alone, as a heartbeat does: nothing happens to them.

use super::id_list;
use crate::rows::{TouchedRow, each};
use crate::sqlite::fault::{Fault, micros};
use crate::sqlite::prepared::Prepare;
use counterstep_kernel::ports::{Touch, Touched};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

macro_rules! touched {
    ($statement:literal) => {
        concat!(
            $statement,
            " RETURNING id, task_type, version, rev, queue, traceparent"
        )
    };
}

pub(in super::super) fn touch(
    connection: &mut SqliteConnection,
    touch: &Touch,
    now: i64,
) -> Result<Vec<Touched>, Fault> {
    let rows = match touch {
        Touch::Reserve { lost, ttl } => diesel::sql_query(touched!(
            "UPDATE tasks SET held_until = ?1, held_epoch = epoch
         WHERE id IN (SELECT value FROM json_each(?2)) AND lease_owner IS NOT NULL AND lease_expires_at <= ?3
           AND (held_until IS NULL OR held_until <= ?3 OR held_epoch <> epoch)"
        ))
        .bind::<BigInt, _>(now + micros(*ttl))
        .bind::<Text, _>(id_list(lost))
        .bind::<BigInt, _>(now)
        .prepared()
        .load(connection)?,
        Touch::PutOff { tasks, by } => diesel::sql_query(touched!(
            "UPDATE tasks SET sweep_at = ?
         WHERE id IN (SELECT value FROM json_each(?)) AND sweep_at IS NOT NULL"
        ))
        .bind::<BigInt, _>(now + micros(*by))
        .bind::<Text, _>(id_list(tasks))
        .prepared()
        .load(connection)?,
        Touch::Wake(task) => diesel::sql_query(touched!(
            "UPDATE tasks SET due_at = ?1 WHERE id = ?2 AND lease_owner IS NULL AND due_at > ?1
           AND (waiting IN ('children', 'concurrency') OR status = 'compensating')"
        ))
        .bind::<BigInt, _>(now)
        .bind::<Text, _>(task.to_string())
        .prepared()
        .load(connection)?,
    };
    Ok(each(rows, TouchedRow::decode)?)
}
