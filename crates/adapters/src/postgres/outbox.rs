//! The tables `outbox` and `poison`. Rows are never deleted: they say which change published what.

use super::fault::{Fault, name, read_json, write_json};
use super::statement::{Statement, Str, interval, rows_of, time, values};
use counterstep_contracts::{ChangeId, QueueName};
use counterstep_kernel::ports::{OutboxRow, Outgoing, Poison, PoisonRow};
use counterstep_kernel::transition::Transition;
use diesel::pg::data_types::PgTimestamp;
use diesel::sql_types as sql;
use std::time::Duration;

const WORK: &str = "work";
const EVENTS: &str = "events";

const INSERT: &str = ", outbox_added AS (INSERT INTO outbox
    (task, kind, queue, dispatch_seq, message, change_id, created_at, visible_at)
  SELECT u.task, u.kind, u.queue, u.dispatch_seq, u.message, u.change_id, now(), now()
  FROM ok, ";

const AS: &str = " AS u (task, change_id, kind, queue, dispatch_seq, message) WHERE ok.every)";

/// Adds messages, and the events of each change in one row.
pub(super) fn insert<'a, Row>(statement: &mut Statement<'a, Row>, changes: &[&'a Transition]) -> Result<(), Fault> {
    let ((mut tasks, mut ids), messages) = rows_of(changes, |change| change.outbox.iter());
    let ((event_tasks, event_ids), events) =
        rows_of(changes, |change| Some(&change.events).into_iter().filter(|events| !events.is_empty()));
    if messages.is_empty() && events.is_empty() {
        return Ok(());
    }
    tasks.extend(event_tasks);
    ids.extend(event_ids);
    let mut kinds = vec![Str::from(WORK); messages.len()];
    let mut queues =
        messages.iter().map(|write| name("outbox.queue", &write.queue.0)).collect::<Result<Vec<_>, _>>()?;
    let mut texts = messages.iter().map(|write| write_json(&write.message)).collect::<Result<Vec<_>, _>>()?;
    let mut numbers: Vec<i64> = messages.iter().map(|write| write.message.dispatch_seq).collect();
    for events in events {
        kinds.push(Str::from(EVENTS));
        queues.push(Str::from(""));
        texts.push(write_json(events)?);
        numbers.push(0);
    }
    statement.push_table(INSERT, numbers.len(), values![tasks, ids, kinds, queues, numbers, texts], AS);
    Ok(())
}

/// A message's id, kind, queue, text and the time of its change.
pub(super) type Message = (i64, String, String, String, PgTimestamp);
type Types = (sql::BigInt, sql::Text, sql::Text, sql::Text, sql::Timestamptz);

/// What a message says.
pub(super) fn decode((id, kind, queue, text, at): Message) -> Result<OutboxRow, Fault> {
    let content = match kind.as_str() {
        WORK => Outgoing::Work { queue: QueueName(queue), message: read_json("outbox.message", &text)? },
        EVENTS => Outgoing::Events { at: time(at), events: read_json("outbox.message", &text)? },
        other => {
            return Err(Fault::Corrupt(format!("outbox.kind: `{other}` is none; expected work or events")));
        }
    };
    Ok(OutboxRow { id, content })
}

/// Hides the oldest messages from before that nobody else has, for `hold`, and gives them in no order.
// Two relays at the same rows do not wait for each other: the second one takes the rows after them.
pub(super) fn take(older_than: Duration, hold: Duration, limit: u32) -> Statement<'static, Types> {
    Statement::of(
        "WITH taken AS MATERIALIZED (
            SELECT id FROM outbox
            WHERE published_at IS NULL AND id > 0 AND created_at <= now() - ? AND visible_at <= now()
            ORDER BY id LIMIT ? FOR NO KEY UPDATE SKIP LOCKED)
         UPDATE outbox SET visible_at = now() + ? FROM taken
         WHERE outbox.id = taken.id AND published_at IS NULL AND outbox.id > 0
         RETURNING outbox.id, kind, queue, message, created_at",
        values![interval(older_than.min(super::LONGEST_LOOK_BACK)), i64::from(limit), interval(hold)],
    )
}

/// Keeps a message that nobody understands, unless it is there already: its queue may deliver it again before it is
/// ended.
pub(super) fn keep_poison(row: &PoisonRow) -> Statement<'_, sql::BigInt> {
    let Poison { source, subject, payload, size_bytes, reason } = &row.poison;
    Statement::of(
        "INSERT INTO poison (source, queue, subject, payload, size_bytes, reason, at)
         VALUES (?, ?, ?, ?, ?, ?, now()) ON CONFLICT (source) DO NOTHING RETURNING id",
        values![
            source.as_str(),
            row.queue.0.as_str(),
            // Both may hold what the sender liked; the bytes themselves are in the payload.
            subject.replace('\0', "\u{fffd}"),
            payload.to_vec(),
            i64::try_from(*size_bytes).unwrap_or(i64::MAX),
            reason.replace('\0', "\u{fffd}")
        ],
    )
}

/// Marks messages as published.
// The transaction does not wait for the disk: a mark that is lost with the machine means one more publication.
pub(super) fn mark(ids: Vec<i64>) -> Statement<'static, sql::BigInt> {
    Statement::of(
        "WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set)
         UPDATE outbox SET published_at = now() FROM relaxed
         WHERE id = ANY(?) AND published_at IS NULL AND id > 0 AND relaxed.set IS NOT NULL RETURNING id",
        values![ids],
    )
}

/// Marks the messages of changes as published. As [`mark`].
pub(super) fn mark_changes(changes: &[ChangeId]) -> Statement<'static, sql::BigInt> {
    let changes: Vec<uuid::Uuid> = changes.iter().map(|change| change.0).collect();
    Statement::of(
        "WITH relaxed AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true) AS set)
         UPDATE outbox SET published_at = now() FROM relaxed
         WHERE change_id = ANY(?) AND published_at IS NULL
           AND change_id > '00000000-0000-0000-0000-000000000000' AND relaxed.set IS NOT NULL RETURNING id",
        values![changes],
    )
}
