//! Brings the schema of a file up to date, or refuses the file. The migrations are part of the
//! program. Must not write to a file that a newer program has changed.

use super::deleted;
use super::fault::is_busy;
use super::pool::{OpenError, connect};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use diesel::{SqliteConnection, sqlite::Sqlite};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};
use std::time::{Duration, Instant};

const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations/sqlite");

/// What [`bring_up_to_date`] finds.
#[derive(Debug, PartialEq, Eq)]
enum SchemaState {
    UpToDate,
    Pending,
}

/// Runs what has not run yet. Several processes may open a new file at once: one of them migrates,
/// the others wait for its transaction and then find nothing to do.
pub(super) fn bring_up_to_date(
    path: &str,
    busy_timeout: Duration,
) -> Result<SqliteConnection, OpenError> {
    let mut connection = connect(path, busy_timeout)?;
    // Looked at before the first write, and the switch to WAL is one.
    let found = look(&mut connection)?;
    switch_to_wal(&mut connection, busy_timeout)
        .map_err(|error| OpenError::Connection(error.to_string()))?;
    if found == SchemaState::UpToDate {
        return Ok(connection);
    }
    connection.immediate_transaction(|connection| {
        if look(connection)? == SchemaState::Pending {
            let is_new = applied(connection).map_err(failed)?.is_empty();
            connection
                .run_pending_migrations(MIGRATIONS)
                .map_err(failed)?;
            if is_new {
                deleted::set_overwrites(connection)?;
            }
        }
        Ok::<_, OpenError>(())
    })?;
    Ok(connection)
}

// While two processes open a new file, SQLite answers this one statement with "locked" at once,
// without waiting for the busy time-out: a wait could be for each other.
fn switch_to_wal(connection: &mut SqliteConnection, busy_timeout: Duration) -> QueryResult<()> {
    let started = Instant::now();
    loop {
        match connection.batch_execute("PRAGMA journal_mode = WAL") {
            Err(error) if is_busy(&error) && started.elapsed() < busy_timeout => {
                std::thread::sleep(Duration::from_millis(5));
            }
            switched => return switched,
        }
    }
}

fn look(connection: &mut SqliteConnection) -> Result<SchemaState, OpenError> {
    let known = known().map_err(failed)?;
    let applied = applied(connection).map_err(failed)?;
    if let Some(version) = applied.iter().find(|version| !known.contains(version)) {
        return Err(OpenError::NewerSchema {
            version: version.clone(),
        });
    }
    Ok(if applied.len() == known.len() {
        SchemaState::UpToDate
    } else {
        SchemaState::Pending
    })
}

fn known() -> diesel::migration::Result<Vec<String>> {
    let migrations = diesel::migration::MigrationSource::<Sqlite>::migrations(&MIGRATIONS)?;
    Ok(migrations
        .iter()
        .map(|migration| migration.name().version().to_string())
        .collect())
}

#[derive(QueryableByName)]
struct Version {
    #[diesel(sql_type = Text)]
    version: String,
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

// Not `applied_migrations()`: it makes its table where there is none, which is a write.
fn applied(connection: &mut SqliteConnection) -> QueryResult<Vec<String>> {
    let table =
        "SELECT count(*) AS count FROM sqlite_schema WHERE name = '__diesel_schema_migrations'";
    if diesel::sql_query(table)
        .get_result::<Count>(connection)?
        .count
        == 0
    {
        return Ok(Vec::new());
    }
    let versions = "SELECT version FROM __diesel_schema_migrations ORDER BY version";
    let rows: Vec<Version> = diesel::sql_query(versions).load(connection)?;
    Ok(rows.into_iter().map(|row| row.version).collect())
}

fn failed(error: impl std::fmt::Display) -> OpenError {
    OpenError::Migration(error.to_string())
}

impl From<diesel::result::Error> for OpenError {
    fn from(error: diesel::result::Error) -> Self {
        failed(error)
    }
}
