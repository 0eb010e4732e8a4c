//! Queries on the table `outbox`: the events of a change, one row a change, deleted when they are
//! published.

use super::fault::{Fault, write_json};
use super::prepared::Prepare;
use super::schema::outbox;
use crate::rows::OutboxRead;
use counterstep_contracts::{ChangeId, TaskEvent, TaskId};
use diesel::SqliteConnection;
use diesel::prelude::*;

/// Adds the events of a change.
pub(super) fn insert(
    connection: &mut SqliteConnection,
    task: TaskId,
    change: ChangeId,
    now: i64,
    events: &[TaskEvent],
) -> Result<(), Fault> {
    diesel::insert_into(outbox::table)
        .values((
            outbox::task.eq(task.to_string()),
            outbox::events.eq(write_json(&events)?),
            outbox::change_id.eq(change.to_string()),
            outbox::created_at.eq(now),
            outbox::visible_at.eq(now),
        ))
        .execute(connection)?;
    Ok(())
}

/// The oldest rows from before `before` that no other relay has.
pub(super) fn to_relay(
    connection: &mut SqliteConnection,
    before: i64,
    now: i64,
    limit: u32,
) -> QueryResult<Vec<OutboxRead>> {
    outbox::table
        .filter(outbox::created_at.le(before))
        .filter(outbox::visible_at.le(now))
        .order(outbox::id)
        .select((outbox::id, outbox::events, outbox::created_at))
        .load_at_most(limit, connection)
}

/// Hides a row from other relays until then.
pub(super) fn hide(connection: &mut SqliteConnection, id: i64, until: i64) -> QueryResult<()> {
    diesel::update(outbox::table.find(id))
        .set(outbox::visible_at.eq(until))
        .execute(connection)
        .map(drop)
}

/// Deletes a row.
pub(super) fn delete(connection: &mut SqliteConnection, id: i64) -> QueryResult<()> {
    diesel::delete(outbox::table.find(id))
        .execute(connection)
        .map(drop)
}

/// Deletes the row of a change.
pub(super) fn delete_of(connection: &mut SqliteConnection, change: ChangeId) -> QueryResult<()> {
    let own = outbox::table.filter(outbox::change_id.eq(change.to_string()));
    diesel::delete(own).execute(connection).map(drop)
}
