//! The database of an engine under test, in its temporary folder; and the tables in it that are the
//! user's own.

use crate::clock::TestClock;
use counterstep_adapters::embedded::{self, EmbeddedPaths};
use counterstep_kernel::ports::Ports;
use diesel::connection::SimpleConnection;
use diesel::deserialize::{self, FromSql};
use diesel::row::{Field, NamedRow, Row};
use diesel::sql_types::{BigInt, Binary, Double, Text};
use diesel::sqlite::{Sqlite, SqliteType, SqliteValue};
use diesel::{Connection, QueryableByName, RunQueryDsl, SqliteConnection};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The SQLite file in the folder of an engine.
pub(crate) fn file_in(folder: &Path) -> PathBuf {
    folder.join("counterstep.db")
}

/// Opens the adapters of an engine in a folder.
pub(crate) async fn open(folder: &Path, clock: &TestClock) -> Ports {
    let paths = EmbeddedPaths {
        database: file_in(folder),
        objects: folder.join("objects"),
        scratch: folder.join("scratch"),
    };
    embedded::open(paths, clock.embedded())
        .await
        .expect("the embedded adapters open")
}

/// Executes statements in the database of a folder, whose schema is there.
///
/// # Panics
/// When one is refused.
pub(crate) fn execute(folder: &Path, sql: &str) {
    connect(folder)
        .batch_execute(sql)
        .unwrap_or_else(|error| panic!("the tables of the test: {error}: {sql}"));
}

/// What a query finds, each row an object by the names of its columns.
///
/// # Panics
/// When it cannot be executed.
pub(crate) fn rows(folder: &Path, query: &str) -> Vec<Value> {
    let found: Vec<Columns> = diesel::sql_query(query)
        .load(&mut connect(folder))
        .unwrap_or_else(|error| panic!("{error}: {query}"));
    found
        .into_iter()
        .map(|Columns(columns)| Value::Object(columns))
        .collect()
}

fn connect(folder: &Path) -> SqliteConnection {
    let file = file_in(folder);
    let mut connection = SqliteConnection::establish(file.to_str().expect("a folder in UTF-8"))
        .expect("the database opens");
    // The engine may be writing, and is the only one that checkpoints: an SQLite with the WAL-reset
    // bug could damage the file.
    connection
        .batch_execute("PRAGMA busy_timeout = 10000; PRAGMA wal_autocheckpoint = 0")
        .expect("a limit on waits");
    connection
}

/// A row of whatever columns.
struct Columns(Map<String, Value>);

impl QueryableByName<Sqlite> for Columns {
    fn build<'a>(row: &impl NamedRow<'a, Sqlite>) -> deserialize::Result<Self> {
        let mut columns = Map::new();
        for at in 0..row.field_count() {
            let field = Row::get(row, at).ok_or("a column is missing")?;
            let value = field.value().map_or(Ok(Value::Null), json)?;
            columns.insert(field.field_name().unwrap_or_default().to_owned(), value);
        }
        Ok(Self(columns))
    }
}

fn json(value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Value> {
    Ok(match value.value_type() {
        None => Value::Null,
        Some(SqliteType::Text) => <String as FromSql<Text, Sqlite>>::from_sql(value)?.into(),
        Some(SqliteType::Binary) => <Vec<u8> as FromSql<Binary, Sqlite>>::from_sql(value)?.into(),
        Some(SqliteType::Float | SqliteType::Double) => {
            <f64 as FromSql<Double, Sqlite>>::from_sql(value)?.into()
        }
        Some(SqliteType::SmallInt | SqliteType::Integer | SqliteType::Long) => {
            <i64 as FromSql<BigInt, Sqlite>>::from_sql(value)?.into()
        }
    })
}
