//! Queries on the table `outbox` for the store; those of the local queue are in `deliveries`. Rows are never deleted:
//! they say which change published what. The kind `work` is a message for hosts on its queue; `events` is all that a
//! change tells other services, and its queue is empty, so that no queue ever delivers it.

use super::fault::{Fault, read_json, write_json};
use super::schema::outbox;
use counterstep_contracts::{ChangeId, QueueName, TaskEvent, TaskId};
use counterstep_kernel::ports::{OutboxRow, Outgoing};
use counterstep_kernel::record::DbTime;
use counterstep_kernel::transition::OutboxWrite;
use diesel::SqliteConnection;
use diesel::prelude::*;

const WORK: &str = "work";
const EVENTS: &str = "events";

/// A row that is to be relayed.
#[derive(Debug, Queryable, Selectable)]
#[diesel(table_name = outbox, check_for_backend(diesel::sqlite::Sqlite))]
pub(super) struct ToRelay {
    pub(super) id: i64,
    queue: String,
    kind: String,
    message: String,
    created_at: i64,
}

impl ToRelay {
    /// What it says.
    pub(super) fn decode(self) -> Result<OutboxRow, Fault> {
        let content = match self.kind.as_str() {
            WORK => {
                Outgoing::Work { queue: QueueName(self.queue), message: read_json("outbox.message", &self.message)? }
            }
            EVENTS => {
                Outgoing::Events { at: DbTime(self.created_at), events: read_json("outbox.message", &self.message)? }
            }
            other => return Err(Fault::Corrupt(format!("outbox.kind: `{other}` is none; expected work or events"))),
        };
        Ok(OutboxRow { id: self.id, content })
    }
}

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
            outbox::kind.eq(WORK),
            outbox::dispatch_seq.eq(write.message.dispatch_seq),
            outbox::message.eq(write_json(&write.message)?),
            outbox::change_id.eq(change.to_string()),
            outbox::created_at.eq(now),
            outbox::visible_at.eq(now),
        ))
        .execute(connection)?;
    Ok(())
}

/// Adds the events of a change, in one row.
pub(super) fn insert_events(
    connection: &mut SqliteConnection,
    task: TaskId,
    change: ChangeId,
    now: i64,
    events: &[TaskEvent],
) -> Result<(), Fault> {
    diesel::insert_into(outbox::table)
        .values((
            outbox::task.eq(task.to_string()),
            outbox::queue.eq(""),
            outbox::kind.eq(EVENTS),
            outbox::dispatch_seq.eq(0),
            outbox::message.eq(write_json(&events)?),
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
) -> QueryResult<Vec<ToRelay>> {
    outbox::table
        .filter(outbox::published_at.is_null())
        .filter(outbox::created_at.le(before))
        .filter(outbox::visible_at.le(now))
        .order(outbox::id)
        .limit(limit.into())
        .select(ToRelay::as_select())
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
