//! Queries on the table `outbox` for the store; those of the local queue are in `deliveries`. Rows are never deleted:
//! they say which change published what.

use super::fault::{Fault, write_json};
use super::schema::outbox;
use counterstep_contracts::{ChangeId, TaskId};
use counterstep_kernel::transition::OutboxWrite;
use diesel::SqliteConnection;
use diesel::prelude::*;

/// A message's id, queue and text.
pub(super) type Message = (i64, String, String);

/// Adds a message.
pub(super) fn insert(
    connection: &mut SqliteConnection,
    task: TaskId,
    change: ChangeId,
    now: i64,
    write: &OutboxWrite,
) -> Result<(), Fault> {
    diesel::insert_into(outbox::table)
        .values((
            outbox::task.eq(task.to_string()),
            outbox::queue.eq(&write.queue.0),
            outbox::dispatch_seq.eq(write.message.dispatch_seq),
            outbox::message.eq(write_json(&write.message)?),
            outbox::change_id.eq(change.to_string()),
            outbox::created_at.eq(now),
            outbox::visible_at.eq(now),
        ))
        .execute(connection)?;
    Ok(())
}

/// The oldest messages from before `before` that nobody else has.
pub(super) fn to_relay(
    connection: &mut SqliteConnection,
    before: i64,
    now: i64,
    limit: u32,
) -> QueryResult<Vec<Message>> {
    outbox::table
        .filter(outbox::published_at.is_null())
        .filter(outbox::created_at.le(before))
        .filter(outbox::visible_at.le(now))
        .order(outbox::id)
        .limit(limit.into())
        .select((outbox::id, outbox::queue, outbox::message))
        .load(connection)
}

/// Hides a message from others until then.
pub(super) fn hide(connection: &mut SqliteConnection, id: i64, until: i64) -> QueryResult<()> {
    diesel::update(outbox::table.find(id)).set(outbox::visible_at.eq(until)).execute(connection).map(drop)
}

/// Marks one message as published.
pub(super) fn mark(connection: &mut SqliteConnection, id: i64, now: i64) -> QueryResult<()> {
    let unpublished = outbox::table.find(id).filter(outbox::published_at.is_null());
    diesel::update(unpublished).set(outbox::published_at.eq(now)).execute(connection).map(drop)
}

/// Marks the messages of a change as published.
pub(super) fn mark_change(connection: &mut SqliteConnection, change: ChangeId, now: i64) -> QueryResult<()> {
    let unpublished =
        outbox::table.filter(outbox::published_at.is_null()).filter(outbox::change_id.eq(change.to_string()));
    diesel::update(unpublished).set(outbox::published_at.eq(now)).execute(connection).map(drop)
}
