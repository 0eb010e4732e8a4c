//! How a task stands among those of its key: for those who ask why it waits. Reads, takes nothing, and wakes none.

use super::ask::{is_within_another, look, needs_place};
use super::decide::{Verdict, decide};
use super::{allowed, free_numbers};
use crate::engine::Engine;
use crate::ports::{PlaceQuery, PlaceRow, StoreError};
use crate::record::TaskRecord;
use counterstep_contracts::{Beyond, TaskId, TaskStatus};
use std::time::Duration;

/// Maximum number of those before it in the line that are counted.
const COUNTED: u32 = 1_000;

/// What keeps a task from its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlaceWait {
    /// Nothing: there is one for it.
    Free,
    /// As many hold a place as may.
    Full,
    /// Those that hold one are being undone to make room for it.
    Replacing,
    /// There is one, and it is this task's that comes before it.
    Behind(TaskId),
    /// The time in which another submission may replace it.
    Early(Duration),
    /// It is cancelled in favour of this newer one.
    Replaced(TaskId),
}

/// A task without a place, and those of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceFound {
    pub(crate) key: String,
    pub(crate) wait: PlaceWait,
    /// Maximum number of tasks under way.
    pub(crate) at_once: u32,
    /// Those that hold a place.
    pub(crate) holders: Vec<PlaceRow>,
    /// Number of tasks that wait before it.
    pub(crate) before: usize,
}

/// Reads it; `None`: the task needs no place, or has one.
pub(crate) async fn standing(
    engine: &Engine,
    record: &TaskRecord,
) -> Result<Option<PlaceFound>, StoreError> {
    let row = &record.task;
    let Some(key) = row.place_key.as_ref().filter(|_| needs_place(record)) else {
        return Ok(None);
    };
    let Some(allowed) = allowed(engine, &row.task_type).await else {
        return Ok(None);
    };
    if is_within_another(engine, row, key).await? {
        return Ok(None);
    }
    let query = match look(key, allowed) {
        PlaceQuery::Of {
            key,
            first,
            waiting,
        } => PlaceQuery::Of {
            key,
            first,
            waiting: waiting.max(COUNTED),
        },
        other @ PlaceQuery::Tasks(_) => other,
    };
    let rows = engine.ports.store.places(&query).await?;
    let decided = decide(&rows, (row.created_at, row.id), allowed, record.now);
    let since = rows.iter().find(|it| it.task == row.id);
    let since = since.map_or(row.created_at, |it| it.since);
    let (holders, line): (Vec<_>, Vec<_>) = rows.iter().cloned().partition(|it| it.no.is_some());
    let before = line
        .iter()
        .filter(|it| (it.since, it.task) < (since, row.id));
    let before: Vec<&PlaceRow> = before.collect();
    let makes_room = |it: &PlaceRow| it.cancel_requested || it.status == TaskStatus::Compensating;
    let wait = match decided.verdict {
        Verdict::Free(_) => PlaceWait::Free,
        Verdict::Early(left) => PlaceWait::Early(left),
        Verdict::Replaced(by) => PlaceWait::Replaced(by),
        Verdict::Full if allowed.beyond == Beyond::Replace && holders.iter().any(makes_room) => {
            PlaceWait::Replacing
        }
        Verdict::Full => match before.first() {
            Some(first) if !free_numbers(&rows, allowed.at_once).is_empty() => {
                PlaceWait::Behind(first.task)
            }
            _ => PlaceWait::Full,
        },
    };
    Ok(Some(PlaceFound {
        key: key.clone(),
        wait,
        at_once: allowed.at_once,
        holders,
        before: before.len(),
    }))
}
