//! Queries on the table `poison`: poison messages, for an operator to look at. Rows are only ever
//! added.

use super::fault::Fault;
use super::schema::poison;
use counterstep_kernel::ports::PoisonRow;
use diesel::SqliteConnection;
use diesel::prelude::*;

/// Adds a message, unless it is there already: its queue may deliver it again before it is ended.
pub(super) fn insert(
    connection: &mut SqliteConnection,
    row: &PoisonRow,
    now: i64,
) -> Result<(), Fault> {
    diesel::insert_into(poison::table)
        .values((
            poison::source.eq(&row.poison.source),
            poison::queue.eq(&row.queue.0),
            poison::subject.eq(&row.poison.subject),
            poison::payload.eq(&row.poison.payload[..]),
            poison::size_bytes.eq(i64::try_from(row.poison.size_bytes).unwrap_or(i64::MAX)),
            poison::reason.eq(&row.poison.reason),
            poison::at.eq(now),
        ))
        .on_conflict(poison::source)
        .do_nothing()
        .execute(connection)?;
    Ok(())
}
