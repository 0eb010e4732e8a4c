//! Queries on the table `outbox` for the local queue: the lease of a delivery lies in `visible_at`, and its number in
//! `deliveries`.

use super::schema::outbox;
use counterstep_contracts::QueueName;
use diesel::SqliteConnection;
use diesel::prelude::*;

/// A message that is to be delivered, and how often it was.
#[derive(Debug, Queryable, Selectable)]
#[diesel(table_name = outbox, check_for_backend(diesel::sqlite::Sqlite))]
pub(crate) struct Deliverable {
    pub(crate) id: i64,
    pub(crate) queue: String,
    pub(crate) message: String,
    pub(crate) deliveries: i64,
}

/// The oldest messages of a queue that nobody else has.
pub(crate) fn to_deliver(
    connection: &mut SqliteConnection,
    queue: &QueueName,
    now: i64,
    limit: i64,
) -> QueryResult<Vec<Deliverable>> {
    outbox::table
        .filter(outbox::published_at.is_null())
        .filter(outbox::queue.eq(&queue.0))
        .filter(outbox::visible_at.le(now))
        .order(outbox::id)
        .limit(limit)
        .select(Deliverable::as_select())
        .load(connection)
}

/// Hands a message out until then, as one more delivery.
pub(crate) fn deliver(connection: &mut SqliteConnection, id: i64, until: i64) -> QueryResult<()> {
    diesel::update(outbox::table.find(id))
        .set((outbox::visible_at.eq(until), outbox::deliveries.eq(outbox::deliveries + 1)))
        .execute(connection)
        .map(drop)
}

/// Moves the time of the redelivery, if this delivery is still the last one.
pub(crate) fn postpone(connection: &mut SqliteConnection, (id, delivery): (i64, i64), until: i64) -> QueryResult<()> {
    let own = outbox::table.find(id).filter(outbox::published_at.is_null()).filter(outbox::deliveries.eq(delivery));
    diesel::update(own).set(outbox::visible_at.eq(until)).execute(connection).map(drop)
}

/// Ends a message, if this delivery is still the last one.
pub(crate) fn settle(
    connection: &mut SqliteConnection,
    (id, delivery): (i64, i64),
    now: i64,
    note: Option<&str>,
) -> QueryResult<()> {
    let own = outbox::table.find(id).filter(outbox::published_at.is_null()).filter(outbox::deliveries.eq(delivery));
    diesel::update(own).set((outbox::published_at.eq(now), outbox::note.eq(note))).execute(connection).map(drop)
}
