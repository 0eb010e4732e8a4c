//! The table `places`: tasks that are counted with others of their key and are not at rest. Must not decide who
//! gets a place: `(key, no)` is unique, and that is all.

use super::fault::{Fault, name};
use super::statement::{Statement, Str, values, written};
use crate::rows::{PlaceCountTypes, PlaceTypes};
use counterstep_kernel::change::transition::{PlaceWrite, Transition};
use counterstep_kernel::ports::{First, PlaceQuery};
use uuid::Uuid;

/// The index that refuses a number that another task has.
pub(super) const TAKEN: &str = "places_taken";

// Of new tasks, by who may submit: that takes no other right than to insert.
const ENTER: &str = ", places_entered AS (INSERT INTO places (key, task, no, created_at)
  SELECT u.key, t.id, u.no, now() FROM t JOIN ";

const ENTER_AS: &str = " AS u (task, key, no) ON u.task = t.id)";

// One that has no row was at rest: it stands where it stood, however late it comes again.
const PUT: &str = ", places_put AS (INSERT INTO places (key, task, no, created_at, entered_in, saw)
  SELECT u.key, t.id, u.no, u.created_at, NULL, CASE WHEN u.no IS NOT NULL THEN pg_current_snapshot() END FROM t, ";

const PUT_AS: &str = " AS u (task, key, no, created_at) WHERE u.task = t.id
  ON CONFLICT (task) DO UPDATE SET no = excluded.no, saw = excluded.saw)";

const LEAVE: &str = ", places_left AS (DELETE FROM places p USING t, ";

const LEAVE_AS: &str = " AS u (task) WHERE u.task = t.id AND p.task = t.id)";

/// Whether another task may have the place by now. Such a change is not written among others, which its
/// refusal would take with it.
pub(super) const fn may_be_taken(change: &Transition) -> bool {
    matches!(&change.place, Some(PlaceWrite::Put { no: Some(_), .. }))
}

/// Adds the places of changes, all of new tasks (`are_new`) or all of others.
pub(super) fn put<'a, Row>(
    statement: &mut Statement<'a, Row>,
    changes: &[&'a Transition],
    are_new: bool,
) -> Result<(), Fault> {
    let (mut tasks, mut keys, mut numbers) = (Vec::new(), Vec::<Str<'a>>::new(), Vec::new());
    let (mut times, mut left) = (Vec::new(), Vec::new());
    for change in changes {
        match &change.place {
            Some(PlaceWrite::Put { key, no, since }) => {
                tasks.push(change.task_id.0);
                keys.push(name("places.key", key)?);
                numbers.push(no.map(i64::from));
                times.push(since.map(written));
            }
            Some(PlaceWrite::Leave { .. }) => left.push(change.task_id.0),
            None => {}
        }
    }
    let rows = tasks.len();
    if rows > 0 && are_new {
        statement.push_table(ENTER, rows, values![tasks, keys, numbers], ENTER_AS);
    } else if rows > 0 {
        statement.push_table(PUT, rows, values![tasks, keys, numbers, times], PUT_AS);
    }
    if !left.is_empty() {
        statement.push_table(LEAVE, left.len(), values![left], LEAVE_AS);
    }
    Ok(())
}

macro_rules! rows {
    ($since:literal, $which:literal) => {
        concat!(
            "SELECT p.key, p.task, p.no, ",
            $since,
            ", t.status, t.waiting, t.cancel_requested_at IS NOT NULL
             FROM places p JOIN tasks t ON t.id = p.task WHERE ",
            $which
        )
    };
}

// Those that wait for a version, and those that are being undone, keep no other waiting.
macro_rules! of {
    ($since:literal, $order:literal) => {
        concat!(
            "(",
            rows!($since, "p.key = ? AND p.no IS NOT NULL ORDER BY p.no"),
            ") UNION ALL (",
            rows!($since, "p.key = ? AND p.no IS NULL AND (t.status IN ('submitted', 'dispatched') OR t.waiting IN ('concurrency', 'debounce'))"),
            $order,
            " LIMIT ?)"
        )
    };
}

const OLDEST: &str = of!("p.created_at", " ORDER BY p.created_at, p.task");

// In a transaction of others the time of a task is that of their begin. Committed after another one took its place,
// it is the newer one all the same: that one runs without what was committed with it.
const NEWEST: &str = of!(
    "COALESCE((SELECT max(h.created_at) + INTERVAL '1 microsecond' FROM places h
       WHERE h.key = p.key AND h.no IS NOT NULL AND h.created_at >= p.created_at
         AND NOT pg_visible_in_snapshot(p.entered_in, h.saw)), p.created_at)",
    " ORDER BY p.created_at DESC, p.task DESC"
);

/// Reads places.
pub(super) fn find(query: &PlaceQuery) -> Result<Statement<'_, PlaceTypes>, Fault> {
    Ok(match query {
        PlaceQuery::Of {
            key,
            first,
            waiting,
        } => {
            let text = match first {
                First::Oldest => OLDEST,
                First::Newest => NEWEST,
            };
            let key = name("places.key", key)?;
            Statement::of(text, values![key.clone(), key, i64::from(*waiting)])
        }
        PlaceQuery::Tasks(tasks) => {
            let ids: Vec<Uuid> = tasks.iter().map(|task| task.0).collect();
            Statement::of(rows!("p.created_at", "p.task = ANY(?)"), values![ids])
        }
    })
}

/// How many there are of each key.
pub(super) fn counts(
    after: Option<&str>,
    limit: u32,
) -> Result<Statement<'_, PlaceCountTypes>, Fault> {
    let after = name("places.key", after.unwrap_or_default())?;
    Ok(Statement::of(
        "SELECT p.key, count(p.no), count(*) - count(p.no),
           count(*) FILTER (WHERE p.no IS NULL AND t.waiting = 'concurrency')
         FROM places p JOIN tasks t ON t.id = p.task WHERE p.key > ? GROUP BY p.key ORDER BY p.key LIMIT ?",
        values![after, i64::from(limit)],
    ))
}
