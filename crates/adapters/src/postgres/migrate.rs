//! Brings the schema of a database up to date, or refuses the database. The migrations are part of
//! the program. Must not write to a database that a newer program has changed.
//!
//! A runner of our own over the table that diesel's command line uses: the ready-made one blocks a
//! thread and wants a runtime with several, and what it would save is the one loop below.

use super::connection::Connection;
use super::fault::Fault;
use super::options::{OpenError, Target};
use super::statement::{Statement, values};
use counterstep_kernel::ports::StoreError;
use diesel::sql_types::{Bool, Text};

/// Version and text of each migration, the oldest first. A migration that was ever released never
/// changes.
const MIGRATIONS: &[(&str, &str)] = &[(
    "20261129000000",
    include_str!("../../migrations/postgres/2026-11-29-000000_tables/up.sql"),
)];

/// Of the lock under which migrations run: two programs that start at once would both find an empty
/// database.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7234018831062117)";

/// Runs what has not run yet, in one transaction. The others wait, and then find nothing to do.
pub(super) async fn run(target: &Target) -> Result<(), OpenError> {
    // Where anything fails the connection is closed, and the server takes everything back.
    let connection = open(target).await?;
    // A long migration on a large database is no mistake, but to stand in line for a table, with
    // everyone behind it, is.
    connection
        .run("BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        .await?;
    connection.run(LOCK).await?;
    connection.run("SET LOCAL lock_timeout = '10s'").await?;
    let applied = applied(&connection).await?;
    newer(&applied)?;
    if applied.is_empty() {
        connection.run(TABLE).await?;
    }
    for (version, text) in MIGRATIONS
        .iter()
        .filter(|(version, _)| !applied.iter().any(|one| one == version))
    {
        connection.run(text).await?;
        let row = "INSERT INTO __diesel_schema_migrations (version) VALUES (?) RETURNING version";
        connection
            .rows::<Text, String>(Statement::of(row, values![*version]))
            .await?;
    }
    Ok(connection.run("COMMIT").await?)
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS __diesel_schema_migrations (
    version VARCHAR(50) PRIMARY KEY NOT NULL,
    run_on  TIMESTAMP   NOT NULL DEFAULT CURRENT_TIMESTAMP
)";

/// Refuses a schema that is not exactly the one of this program.
pub(super) async fn check(target: &Target) -> Result<(), OpenError> {
    let connection = open(target).await?;
    let applied = applied(&connection).await?;
    newer(&applied)?;
    let needed = MIGRATIONS.last().map_or("none", |(version, _)| version);
    if applied.len() < MIGRATIONS.len() {
        let found = applied.last().map_or("none", String::as_str).to_owned();
        return Err(OpenError::OlderSchema {
            found,
            needed: needed.to_owned(),
        });
    }
    Ok(())
}

fn newer(applied: &[String]) -> Result<(), OpenError> {
    let unknown = applied
        .iter()
        .find(|version| !MIGRATIONS.iter().any(|(known, _)| known == version));
    unknown.map_or(Ok(()), |version| {
        Err(OpenError::NewerSchema {
            version: version.clone(),
        })
    })
}

async fn applied(connection: &Connection) -> Result<Vec<String>, OpenError> {
    let table = "SELECT to_regclass('__diesel_schema_migrations') IS NOT NULL";
    if connection
        .rows::<Bool, bool>(Statement::of(table, values![]))
        .await?
        != [true]
    {
        return Ok(Vec::new());
    }
    let versions = "SELECT version::text FROM __diesel_schema_migrations ORDER BY version";
    Ok(connection
        .rows::<Text, String>(Statement::of(versions, values![]))
        .await?)
}

async fn open(target: &Target) -> Result<Connection, OpenError> {
    let opened = Connection::open(target).await;
    opened.map_err(|error| target.unreachable(&error))
}

impl From<Fault> for OpenError {
    fn from(fault: Fault) -> Self {
        match StoreError::from(fault) {
            // It went away in between.
            StoreError::Unavailable(why) | StoreError::Unknown(why) => Self::Connection(why),
            error => Self::Migration(error.to_string()),
        }
    }
}
