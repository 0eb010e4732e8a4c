//! The table `outbox`. It holds the events of a change, one row a change,
//! until they are published.

use super::fault::{Fault, write_json};
use super::statement::{Statement, interval, look_back, rows_of, values};
use crate::outbox_holds::sort_out;
use crate::rows::{OutboxRead, OutboxTypes};
use counterstep_contracts::ChangeId;
use counterstep_kernel::change::transition::Transition;
use counterstep_kernel::ports::OutboxRow;
use diesel::sql_types as sql;
use std::time::Duration;

const INSERT: &str =
    ", outbox_added AS (INSERT INTO outbox (task, events, change_id, created_at, visible_at)
  SELECT u.task, u.events, u.change_id, now(), now()
  FROM t, ";

const AS: &str = " AS u (task, change_id, events) WHERE u.task = t.id)";

/// Adds the events of each change that has any.
pub(super) fn insert<'a, Row>(
    statement: &mut Statement<'a, Row>,
    changes: &[&'a Transition],
) -> Result<(), Fault> {
    let ((tasks, ids), events) = rows_of(changes, |change| {
        Some(&change.events)
            .into_iter()
            .filter(|events| !events.is_empty())
    });
    if events.is_empty() {
        return Ok(());
    }
    let texts = events
        .iter()
        .map(|events| write_json(events))
        .collect::<Result<Vec<_>, _>>()?;
    statement.push_table(INSERT, texts.len(), values![tasks, ids, texts], AS);
    Ok(())
}

/// What the rows say, the oldest first, and the ids of those that cannot be read.
pub(super) fn decode_all(mut rows: Vec<OutboxRead>) -> (Vec<OutboxRow>, Vec<i64>) {
    rows.sort_unstable_by_key(|row| row.id);
    sort_out(rows)
}

/// Hides the oldest rows from before that no other relay has, for `hold`, and gives them in no
/// order.
// Two relays at the same rows do not wait for each other: the second one takes the rows after them.
pub(super) fn take(
    older_than: Duration,
    hold: Duration,
    limit: u32,
) -> Statement<'static, OutboxTypes> {
    Statement::of(
        "WITH taken AS MATERIALIZED (
            SELECT id FROM outbox
            WHERE id > 0 AND created_at <= now() - ? AND visible_at <= now()
            ORDER BY id LIMIT ? FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE outbox SET visible_at = now() + ? FROM taken
         WHERE outbox.id = taken.id AND outbox.id > 0
         RETURNING outbox.id, events, created_at",
        values![look_back(older_than), i64::from(limit), interval(hold)],
    )
}

/// Hides rows for `hold`.
pub(super) fn hide(ids: Vec<i64>, hold: Duration) -> Statement<'static, sql::BigInt> {
    Statement::of(
        "UPDATE outbox SET visible_at = now() + ? WHERE id = ANY(?) AND id > 0 RETURNING id",
        values![interval(hold), ids],
    )
}

/// Deletes rows that are published.
// The transaction does not wait for the disk: a deletion that is lost with the machine means one
// more publication.
pub(super) fn delete(ids: Vec<i64>) -> Statement<'static, sql::BigInt> {
    Statement::of(
        "WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set)
         DELETE FROM outbox USING relaxed WHERE id = ANY(?) AND id > 0 AND relaxed.set IS NOT NULL RETURNING id",
        values![ids],
    )
}

/// Deletes the rows of changes. As [`delete`].
pub(super) fn delete_of(changes: &[ChangeId]) -> Statement<'static, sql::BigInt> {
    let changes: Vec<uuid::Uuid> = changes.iter().map(|change| change.0).collect();
    Statement::of(
        "WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set)
         DELETE FROM outbox USING relaxed
         WHERE change_id = ANY(?) AND change_id > '00000000-0000-0000-0000-000000000000' AND relaxed.set IS NOT NULL
         RETURNING id",
        values![changes],
    )
}
