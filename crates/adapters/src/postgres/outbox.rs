//! The table `outbox`. Rows are never deleted: they say which change published what.

use super::fault::{Fault, name, write_json};
use super::statement::{Statement, interval, values};
use counterstep_contracts::ChangeId;
use counterstep_kernel::transition::OutboxWrite;
use diesel::sql_types as sql;
use std::time::Duration;

const INSERT: &str = ", outbox_added AS (INSERT INTO outbox
    (task, queue, dispatch_seq, message, change_id, created_at, visible_at)
  SELECT t.id, u.queue, u.dispatch_seq, u.message, t.change_id, t.now, t.now
  FROM t, unnest(?, ?, ?) AS u (queue, dispatch_seq, message))";

/// Adds messages.
pub(super) fn insert<'a, Row>(statement: &mut Statement<'a, Row>, messages: &'a [OutboxWrite]) -> Result<(), Fault> {
    if messages.is_empty() {
        return Ok(());
    }
    let queues = messages.iter().map(|write| name("outbox.queue", &write.queue.0)).collect::<Result<Vec<_>, _>>()?;
    let texts = messages.iter().map(|write| write_json(&write.message)).collect::<Result<Vec<_>, _>>()?;
    let numbers: Vec<i64> = messages.iter().map(|write| write.message.dispatch_seq).collect();
    statement.push(INSERT, values![queues, numbers, texts]);
    Ok(())
}

/// A message's id, queue and text.
pub(super) type Message = (i64, String, String);

/// Hides the oldest messages from before that nobody else has, for `hold`, and gives them in no order.
// Two relays at the same rows do not wait for each other: the second one takes the rows after them.
pub(super) fn take(
    older_than: Duration,
    hold: Duration,
    limit: u32,
) -> Statement<'static, (sql::BigInt, sql::Text, sql::Text)> {
    Statement::of(
        "WITH taken AS MATERIALIZED (
            SELECT id FROM outbox
            WHERE published_at IS NULL AND created_at <= now() - ? AND visible_at <= now()
            ORDER BY id LIMIT ? FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE outbox SET visible_at = now() + ? FROM taken WHERE outbox.id = taken.id
         RETURNING outbox.id, queue, message",
        values![interval(older_than.min(super::LONGEST_LOOK_BACK)), i64::from(limit), interval(hold)],
    )
}

/// Marks messages as published.
// The transaction does not wait for the disk: a mark that is lost with the machine means one more publication.
pub(super) fn mark(ids: Vec<i64>) -> Statement<'static, sql::BigInt> {
    Statement::of(
        "WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set)
         UPDATE outbox SET published_at = now() FROM relaxed
         WHERE id = ANY(?) AND published_at IS NULL AND relaxed.set IS NOT NULL RETURNING id",
        values![ids],
    )
}

/// Marks the messages of changes as published. As [`mark`].
pub(super) fn mark_changes(changes: &[ChangeId]) -> Statement<'static, sql::BigInt> {
    let changes: Vec<uuid::Uuid> = changes.iter().map(|change| change.0).collect();
    Statement::of(
        "WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set)
         UPDATE outbox SET published_at = now() FROM relaxed
         WHERE change_id = ANY(?) AND published_at IS NULL AND relaxed.set IS NOT NULL RETURNING id",
        values![changes],
    )
}
