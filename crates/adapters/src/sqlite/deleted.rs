//! What was deleted and may still be read: since when in the log of the file, and whether in its pages. Owns two numbers in the
//! header of the file, which cost no table. Must not delete anything.

use crate::finding::Finding;
use counterstep_steps::times::{DbTime, rfc3339};
use diesel::prelude::*;
use diesel::sql_types::Integer;
use diesel::{SqliteConnection, connection::SimpleConnection};

/// The `application_id` of a file from which each deletion has overwritten what it deleted: it was made, or written anew, by a
/// program that does.
const OVERWRITES: i32 = 0x4373_7470;

const MINUTE: i64 = 60_000_000;

/// From when on the log may have what was deleted, in minutes since 1970; it is the `user_version` of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogSince(i32);

impl LogSince {
    /// The log has nothing of it.
    pub(super) const NEVER: Self = Self(0);

    pub(super) fn read(connection: &mut SqliteConnection) -> QueryResult<Self> {
        pragma(connection, "user_version").map(Self)
    }

    pub(super) fn write(self, connection: &mut SqliteConnection) -> QueryResult<()> {
        connection.batch_execute(&format!("PRAGMA user_version = {}", self.0))
    }

    /// Something is deleted now. Where the log has some already, since then.
    pub(super) fn begin(connection: &mut SqliteConnection, now: i64) -> QueryResult<()> {
        if Self::read(connection)? != Self::NEVER {
            return Ok(());
        }
        Self(i32::try_from(now / MINUTE).unwrap_or(i32::MAX)).write(connection)
    }
}

/// Says of a file that its deletions overwrite.
pub(super) fn set_overwrites(connection: &mut SqliteConnection) -> QueryResult<()> {
    connection.batch_execute(&format!("PRAGMA application_id = {OVERWRITES}"))
}

fn pragma(connection: &mut SqliteConnection, name: &str) -> QueryResult<i32> {
    diesel::dsl::sql::<Integer>(&format!("SELECT * FROM pragma_{name}")).get_result(connection)
}

/// What an operator should know about the file; empty: nothing that can be seen in it.
pub(super) fn examine(connection: &mut SqliteConnection) -> QueryResult<Vec<Finding>> {
    let since = LogSince::read(connection)?;
    let mut found = Vec::new();
    if since != LogSince::NEVER {
        let since = rfc3339(DbTime(i64::from(since.0) * MINUTE));
        found.push(Finding {
            code: "sqlite_log_has_deleted",
            what: format!("what was deleted since {since} may still be read in the log of the database file"),
            why: "each pass of retention empties the log, which is not possible while another connection reads from it",
            to_do: "run a reconciler; where one runs, end what reads for long: a shell, a copy, a stopped process"
                .to_owned(),
        });
    }
    if pragma(connection, "application_id")? != OVERWRITES {
        found.push(Finding {
            code: "sqlite_vacuum",
            what: "the database file is of a program that did not overwrite what it deleted"
                .to_owned(),
            why: "what was deleted may still be read in the file",
            to_do: "run `counterstep migrate --vacuum` once".to_owned(),
        });
    }
    Ok(found)
}
