//! The table `places`: tasks that are counted with others of their key and are not at rest. Must not decide who
//! gets a place: `(key, no)` is unique, and that is all.

use super::fault::Fault;
use super::prepared::{Prepare, Statement};
use super::tasks::id_list;
use crate::rows::{PlaceCountRow, PlaceRead, each};
use counterstep_contracts::TaskId;
use counterstep_kernel::change::transition::PlaceWrite;
use counterstep_kernel::ports::{CommitError, First, PlaceCount, PlaceQuery, PlaceRow};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

/// Writes what becomes of the row of a task.
pub(super) fn put(
    connection: &mut SqliteConnection,
    task: TaskId,
    write: &PlaceWrite,
    now: i64,
) -> Result<(), Fault> {
    let id = task.to_string();
    let (key, no, since) = match write {
        PlaceWrite::Put { key, no, since } => (key, *no, since.map_or(now, |since| since.0)),
        PlaceWrite::Leave { .. } => {
            let (text, values) = ("DELETE FROM places WHERE task = ?", [(&id).into()]);
            return Ok(Statement { text, values }.execute(connection).map(drop)?);
        }
    };
    // The transaction holds the write lock: no other one can take it in between.
    if let Some(no) = no
        && holder(connection, key, no)?.is_some_and(|holder| holder.task != id)
    {
        return Err(CommitError::PlaceTaken.into());
    }
    let text = "INSERT INTO places (key, task, no, created_at) VALUES (?, ?, ?, ?)
        ON CONFLICT (task) DO UPDATE SET no = excluded.no";
    let values = [
        key.into(),
        (&id).into(),
        no.map(i64::from).into(),
        since.into(),
    ];
    Ok(Statement { text, values }.execute(connection).map(drop)?)
}

#[derive(Debug, QueryableByName)]
struct Holder {
    #[diesel(sql_type = Text)]
    task: String,
}

fn holder(connection: &mut SqliteConnection, key: &str, no: u32) -> QueryResult<Option<Holder>> {
    diesel::sql_query("SELECT task FROM places WHERE key = ? AND no = ?")
        .bind::<Text, _>(key)
        .bind::<BigInt, _>(i64::from(no))
        .prepared()
        .get_result(connection)
        .optional()
}

macro_rules! rows {
    ($which:literal) => {
        concat!(
            "SELECT p.key, p.task, p.no, p.created_at AS since, t.status, t.waiting,
               t.cancel_requested_at IS NOT NULL AS cancel_requested
             FROM places p CROSS JOIN tasks t ON t.id = p.task WHERE ",
            $which
        )
    };
}

const HELD: &str = rows!("p.key = ?1 AND p.no IS NOT NULL ORDER BY p.no");

// Those that wait for a version, and those that are being undone, keep no other waiting.
macro_rules! waiting {
    ($order:literal) => {
        concat!(
            rows!("p.key = ?1 AND p.no IS NULL AND (t.status IN ('submitted', 'dispatched') OR t.waiting IN ('concurrency', 'debounce'))"),
            " ORDER BY ",
            $order
        )
    };
}

const OLDEST: &str = waiting!("p.created_at, p.task");
const NEWEST: &str = waiting!("p.created_at DESC, p.task DESC");

/// Reads places.
pub(super) fn find(
    connection: &mut SqliteConnection,
    query: &PlaceQuery,
) -> Result<Vec<PlaceRow>, Fault> {
    let rows: Vec<PlaceRead> = match query {
        PlaceQuery::Of {
            key,
            first,
            waiting,
        } => {
            let mut rows: Vec<PlaceRead> = diesel::sql_query(HELD)
                .bind::<Text, _>(key)
                .prepared()
                .load(connection)?;
            let text = match first {
                First::Oldest => OLDEST,
                First::Newest => NEWEST,
            };
            let line: Vec<PlaceRead> = diesel::sql_query(text)
                .bind::<Text, _>(key)
                .load_at_most(*waiting, connection)?;
            rows.extend(line);
            rows
        }
        PlaceQuery::Tasks(tasks) => {
            diesel::sql_query(rows!("p.task IN (SELECT value FROM json_each(?))"))
                .bind::<Text, _>(id_list(tasks))
                .prepared()
                .load(connection)?
        }
    };
    Ok(each(rows, PlaceRead::decode)?)
}

/// How many there are of each key.
pub(super) fn counts(
    connection: &mut SqliteConnection,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<PlaceCount>, Fault> {
    let rows = diesel::sql_query(
        "SELECT p.key AS key, count(p.no) AS held, count(*) - count(p.no) AS waiting,
           count(*) FILTER (WHERE p.no IS NULL AND t.waiting = 'concurrency') AS asleep
         FROM places p JOIN tasks t ON t.id = p.task WHERE p.key > ? GROUP BY p.key ORDER BY p.key",
    )
    .bind::<Text, _>(after.unwrap_or_default())
    .load_at_most(limit, connection)?;
    Ok(each(rows, PlaceCountRow::decode)?)
}
