//! The one table of a spool's file, one function a query. Each write is flushed to the disk.

use counterstep_contracts::{Attempt, Direction, Epoch, StepNo, TaskId};
use counterstep_kernel::ports::{SpoolEntry, SpoolError, SpoolKey, SpoolStats};
use diesel::SqliteConnection;
use diesel::connection::SimpleConnection;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Nullable};
use std::path::Path;

diesel::table! {
    results (task, step, direction, attempt) {
        task -> Text,
        step -> Integer,
        direction -> Text,
        attempt -> Integer,
        epoch -> BigInt,
        worker -> Text,
        kept_at -> BigInt,
        body -> Text,
    }
}

/// Of the form below. A file of a newer form is not touched.
const FORM: i32 = 1;

const TABLE: &str = "
    CREATE TABLE results (
        task TEXT NOT NULL,
        step INTEGER NOT NULL,
        direction TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        worker TEXT NOT NULL,
        kept_at INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (task, step, direction, attempt)
    );
    PRAGMA user_version = 1;";

/// With `FULL`, a commit in WAL mode is one flush, and is on the disk when it returns. The process is
/// alone on the file, so that no third file is needed beside the log.
const SETTINGS: &str = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 1048576;";

/// The bytes of all bodies.
const BYTES: &str = "COALESCE(SUM(LENGTH(CAST(body AS BLOB))), 0)";

/// What goes wrong with a file.
#[derive(Debug, thiserror::Error)]
pub(super) enum RowsError {
    #[error("{0}")]
    Sql(#[from] diesel::result::Error),
    #[error("{0}")]
    Open(#[from] diesel::ConnectionError),
    #[error("its path is not UTF-8")]
    Path,
    #[error("it has form {0}, which this program does not know: use a newer program")]
    Newer(i32),
    #[error("a row cannot be read: {0}")]
    Unreadable(String),
    #[error("it may hold {0} bytes")]
    Full(u64),
}

impl From<RowsError> for SpoolError {
    fn from(error: RowsError) -> Self {
        match error {
            RowsError::Full(most) => Self::Full { most },
            other => Self::Failed(other.to_string()),
        }
    }
}

#[derive(Queryable, Insertable)]
#[diesel(table_name = results)]
struct Row {
    task: String,
    step: i32,
    direction: String,
    attempt: i32,
    epoch: i64,
    worker: String,
    kept_at: i64,
    body: String,
}

type KeyColumns = (String, i32, String, i32);

fn key_of((task, step, direction, attempt): KeyColumns) -> Result<SpoolKey, RowsError> {
    let unreadable = |text: &str| RowsError::Unreadable(text.to_owned());
    let task: TaskId = task.parse().map_err(|_| unreadable(&task))?;
    let direction: Direction = direction.parse().map_err(|_| unreadable(&direction))?;
    Ok(SpoolKey {
        task,
        step: StepNo(step),
        direction,
        attempt: Attempt(attempt),
    })
}

pub(super) fn open(path: &Path) -> Result<SqliteConnection, RowsError> {
    let mut rows = SqliteConnection::establish(path.to_str().ok_or(RowsError::Path)?)?;
    let form =
        sql::<Integer>("SELECT user_version FROM pragma_user_version").get_result(&mut rows)?;
    if form > FORM {
        return Err(RowsError::Newer(form));
    }
    rows.batch_execute(SETTINGS)?;
    if form == 0 {
        rows.immediate_transaction(|rows| rows.batch_execute(TABLE))?;
    }
    Ok(rows)
}

pub(super) fn put(
    rows: &mut SqliteConnection,
    entry: &SpoolEntry,
    most: u64,
) -> Result<(), RowsError> {
    rows.immediate_transaction(|rows| {
        remove(rows, &entry.key)?;
        let there: i64 = results::table
            .select(sql::<BigInt>(BYTES))
            .get_result(rows)?;
        if unsigned(there).saturating_add(entry.body.len() as u64) > most {
            return Err(RowsError::Full(most));
        }
        let key = entry.key;
        diesel::insert_into(results::table)
            .values(Row {
                task: key.task.to_string(),
                step: key.step.0,
                direction: key.direction.as_str().to_owned(),
                attempt: key.attempt.0,
                epoch: entry.epoch.0,
                worker: entry.worker.clone(),
                kept_at: i64::try_from(entry.kept_at).unwrap_or(i64::MAX),
                body: entry.body.clone(),
            })
            .execute(rows)?;
        Ok(())
    })
}

pub(super) fn keys(rows: &mut SqliteConnection) -> Result<Vec<SpoolKey>, RowsError> {
    use results::{attempt, direction, kept_at, step, task};
    let found: Vec<KeyColumns> = results::table
        .select((task, step, direction, attempt))
        .order((kept_at, task, step, direction, attempt))
        .load(rows)?;
    found.into_iter().map(key_of).collect()
}

pub(super) fn get(
    rows: &mut SqliteConnection,
    key: &SpoolKey,
) -> Result<Option<SpoolEntry>, RowsError> {
    let found = results::table
        .find((
            key.task.to_string(),
            key.step.0,
            key.direction.as_str(),
            key.attempt.0,
        ))
        .first::<Row>(rows)
        .optional()?;
    Ok(found.map(|row| SpoolEntry {
        key: *key,
        epoch: Epoch(row.epoch),
        worker: row.worker,
        kept_at: unsigned(row.kept_at),
        body: row.body,
    }))
}

pub(super) fn remove(rows: &mut SqliteConnection, key: &SpoolKey) -> Result<(), RowsError> {
    diesel::delete(results::table.find((
        key.task.to_string(),
        key.step.0,
        key.direction.as_str(),
        key.attempt.0,
    )))
    .execute(rows)?;
    Ok(())
}

pub(super) fn stats(rows: &mut SqliteConnection) -> Result<SpoolStats, RowsError> {
    let (entries, bytes, oldest): (i64, i64, Option<i64>) = results::table
        .select((
            diesel::dsl::count_star(),
            sql::<BigInt>(BYTES),
            sql::<Nullable<BigInt>>("MIN(kept_at)"),
        ))
        .get_result(rows)?;
    Ok(SpoolStats {
        entries: unsigned(entries),
        bytes: unsigned(bytes),
        oldest: oldest.map(unsigned),
    })
}

/// Adds all rows of another file, over those of the same key.
pub(super) fn take_all(
    rows: &mut SqliteConnection,
    from: &mut SqliteConnection,
) -> Result<(), RowsError> {
    let found: Vec<Row> = results::table.load(from)?;
    rows.immediate_transaction(|rows| {
        for row in found {
            diesel::replace_into(results::table)
                .values(row)
                .execute(rows)?;
        }
        Ok(())
    })
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
