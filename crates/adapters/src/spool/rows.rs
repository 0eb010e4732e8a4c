//! The one table of a spool's file, one function a query. Each write is flushed to the disk.

use counterstep_contracts::{Attempt, Direction, Epoch, StepNo, TaskId};
use counterstep_kernel::SealSecrets;
use counterstep_kernel::ports::{SpoolEntry, SpoolError, SpoolKey, SpoolStats};
use diesel::SqliteConnection;
use diesel::connection::SimpleConnection;
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Integer, Nullable};
use std::collections::HashSet;
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
        task_type -> Text,
        seal -> Nullable<Binary>,
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
        task_type TEXT NOT NULL DEFAULT '',
        seal BLOB,
        PRIMARY KEY (task, step, direction, attempt)
    );
    PRAGMA user_version = 1;";

/// Files of older programs lack these columns, and those programs write to files that have them.
const ADDED: [(&str, &str); 2] = [
    (
        "task_type",
        "ALTER TABLE results ADD COLUMN task_type TEXT NOT NULL DEFAULT ''",
    ),
    ("seal", "ALTER TABLE results ADD COLUMN seal BLOB"),
];

/// With `FULL`, a commit in WAL mode is one flush, and is on the disk when it returns. The process is
/// alone on the file, so that no third file is needed beside the log.
const SETTINGS: &str = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 1048576; PRAGMA secure_delete = ON;";

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
    #[error("its seal is not valid")]
    Unsealed,
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
    task_type: String,
    /// `None`: an older program, or another one, has written it.
    seal: Option<Vec<u8>>,
}

impl Row {
    fn of(entry: &SpoolEntry, seals: &SealSecrets) -> Self {
        let key = entry.key;
        Self {
            task: key.task.to_string(),
            step: key.step.0,
            direction: key.direction.as_str().to_owned(),
            attempt: key.attempt.0,
            epoch: entry.epoch.0,
            worker: entry.worker.clone(),
            kept_at: i64::try_from(entry.kept_at).unwrap_or(i64::MAX),
            body: entry.body.clone(),
            task_type: entry.task_type.clone(),
            seal: Some(seals.seal(entry)),
        }
    }

    /// The entry, and its seal.
    fn read(self) -> Result<(SpoolEntry, Option<Vec<u8>>), RowsError> {
        let key = key_of((self.task, self.step, self.direction, self.attempt))?;
        let entry = SpoolEntry {
            key,
            epoch: Epoch(self.epoch),
            worker: self.worker,
            task_type: self.task_type,
            kept_at: unsigned(self.kept_at),
            body: self.body,
        };
        Ok((entry, self.seal))
    }
}

type KeyColumns = (String, i32, String, i32);

/// The primary key of an entry.
fn columns(key: &SpoolKey) -> (String, i32, &'static str, i32) {
    (
        key.task.to_string(),
        key.step.0,
        key.direction.as_str(),
        key.attempt.0,
    )
}

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
    } else {
        for (column, add) in ADDED {
            let has = format!(
                "SELECT COUNT(*) FROM pragma_table_info('results') WHERE name = '{column}'"
            );
            if sql::<Integer>(&has).get_result::<i32>(&mut rows)? == 0 {
                rows.batch_execute(add)?;
            }
        }
    }
    Ok(rows)
}

pub(super) fn put(
    rows: &mut SqliteConnection,
    entry: &SpoolEntry,
    seals: &SealSecrets,
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
        diesel::insert_into(results::table)
            .values(Row::of(entry, seals))
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
    let read = found.into_iter().map(key_of);
    // What is no key is no result of this program: it stays, and is not used.
    let not_used =
        |error: &RowsError| tracing::error!(%error, "a row of the kept results is not used");
    let known = read.filter_map(|key| key.inspect_err(not_used).ok());
    Ok(known.collect())
}

pub(super) fn get(
    rows: &mut SqliteConnection,
    key: &SpoolKey,
    seals: &SealSecrets,
) -> Result<Option<SpoolEntry>, RowsError> {
    let found = results::table.find(columns(key));
    let Some(row) = found.first::<Row>(rows).optional()? else {
        return Ok(None);
    };
    let (entry, seal) = row.read()?;
    if seal.is_some_and(|seal| seals.fits(&entry, &seal)) {
        Ok(Some(entry))
    } else {
        Err(RowsError::Unsealed)
    }
}

pub(super) fn remove(rows: &mut SqliteConnection, key: &SpoolKey) -> Result<(), RowsError> {
    diesel::delete(results::table.find(columns(key))).execute(rows)?;
    Ok(())
}

/// Empties the log once there are no rows: what was removed could still be read in it.
pub(super) fn empty_log_of_none(rows: &mut SqliteConnection) -> Result<(), RowsError> {
    if stats(rows)?.entries == 0 {
        rows.batch_execute("PRAGMA wal_checkpoint(TRUNCATE)")?;
    }
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

/// The keys of the results without a valid seal. `accepts`: those that have none are sealed, and are not among them.
pub(super) fn unsealed(
    rows: &mut SqliteConnection,
    seals: &SealSecrets,
    accepts: bool,
) -> Result<HashSet<SpoolKey>, RowsError> {
    let mut unsealed = HashSet::new();
    for key in keys(rows)? {
        let found = results::table.find(columns(&key));
        let (entry, seal) = found.first::<Row>(rows)?.read()?;
        match seal {
            Some(seal) if seals.fits(&entry, &seal) => {}
            None if accepts => {
                diesel::replace_into(results::table)
                    .values(Row::of(&entry, seals))
                    .execute(rows)?;
            }
            Some(_) | None => drop(unsealed.insert(key)),
        }
    }
    Ok(unsealed)
}

/// The types of the tasks whose results are here, each once.
fn types(rows: &mut SqliteConnection) -> Result<Vec<String>, RowsError> {
    let types = results::table.select(results::task_type).distinct();
    Ok(types.load(rows)?)
}

/// Whether all results are of these types, or of types that an older program has not noted.
pub(super) fn are_all(
    rows: &mut SqliteConnection,
    takes: &dyn Fn(&str) -> bool,
) -> Result<bool, RowsError> {
    let types = types(rows)?;
    Ok(types.iter().all(|of| of.is_empty() || takes(of)))
}

/// Moves the rows of such types from another file here, over those of the same key. Where the process ends in between, both have
/// them, and the next start does it again.
pub(super) fn take(
    rows: &mut SqliteConnection,
    from: &mut SqliteConnection,
    takes: &dyn Fn(&str) -> bool,
) -> Result<(), RowsError> {
    for of in types(from)? {
        if !of.is_empty() && !takes(&of) {
            continue;
        }
        let found: Vec<Row> = results::table
            .filter(results::task_type.eq(&of))
            .load(from)?;
        rows.immediate_transaction(|rows| {
            for row in found {
                diesel::replace_into(results::table)
                    .values(row)
                    .execute(rows)?;
            }
            Ok::<_, RowsError>(())
        })?;
        diesel::delete(results::table.filter(results::task_type.eq(&of))).execute(from)?;
    }
    Ok(())
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
