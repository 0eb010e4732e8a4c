//! Whether a task that is to be claimed may start: it holds a place, needs none, or there is one for it. What is
//! found out on the way is done at once: sleepers for whom there is a place are woken, and older tasks make
//! room for newer ones.

use super::decide::{Verdict, decide};
use super::wake::wake_sleepers;
use super::{Allowed, allowed, give_way};
use crate::change::{Author, ChangeError};
use crate::children;
use crate::engine::Engine;
use crate::ports::{First, PlaceQuery, StoreError};
use crate::record::{TaskRecord, TaskRow};
use crate::task::TaskType;
use counterstep_contracts::{Beyond, TaskId, TaskStatus, WaitReason};
use serde_json::json;
use std::time::Duration;

/// A task that sleeps for a place is woken when there is one. It looks for itself after this, whatever happens.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// Older tasks that one look asks to make room, beside those that hold a place.
const AT_A_TIME: u32 = 100;

/// What a task may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It needs no place, or holds one.
    Goes,
    /// It may have the place with this number.
    Free(u32),
    /// It has to wait: so many may be under way.
    Full(u32),
    /// It has to wait for this time: another submission of its key may replace it until then.
    Early(Duration),
    /// It was cancelled: this newer task has its place.
    Replaced(TaskId),
}

/// Whether a forward step of the task may start next. An undo needs no place: what was done is undone.
pub(super) fn needs_place(record: &TaskRecord) -> bool {
    let row = &record.task;
    let goes_forward = matches!(
        row.status,
        TaskStatus::Submitted | TaskStatus::Dispatched | TaskStatus::Waiting
    );
    let is_asked = row.place_no.is_none() && row.cancel_requested_at.is_none();
    goes_forward && is_asked && !record.is_past_deadline()
}

/// Asks for a task that nothing else keeps from being claimed.
///
/// # Errors
/// When the store does not answer, or a task that is to make room cannot be changed.
pub(crate) async fn ask(
    engine: &Engine,
    task_type: &TaskType,
    record: &TaskRecord,
) -> Result<Asked, ChangeError> {
    let row = &record.task;
    let Some(key) = row.place_key.as_ref().filter(|_| needs_place(record)) else {
        return Ok(Asked::Goes);
    };
    let Some(allowed) = allowed(engine, task_type.decl.name).await else {
        return Ok(Asked::Goes);
    };
    if is_within_another(engine, row, key).await? {
        return Ok(Asked::Goes);
    }
    let rows = engine.ports.store.places(&look(key, allowed)).await?;
    let decided = decide(&rows, (row.created_at, row.id), allowed, record.now);
    for task in decided.wake {
        children::wake(engine, task).await?;
    }
    for task in decided.cancel {
        give_way(engine, task, row.id).await?;
    }
    Ok(match decided.verdict {
        Verdict::Free(no) => Asked::Free(no),
        Verdict::Full => Asked::Full(allowed.at_once),
        Verdict::Early(left) => Asked::Early(left),
        Verdict::Replaced(by) => {
            give_way(engine, row.id, by).await?;
            Asked::Replaced(by)
        }
    })
}

/// What is read of a key to decide on one of its tasks.
pub(super) fn look(key: &str, allowed: Allowed) -> PlaceQuery {
    let (first, more) = match (allowed.beyond, allowed.debounce) {
        (Beyond::Wait | Beyond::Refuse, None) => (First::Oldest, 0),
        (Beyond::Replace, _) | (_, Some(_)) => (First::Newest, AT_A_TIME),
    };
    PlaceQuery::Of {
        key: key.to_owned(),
        first,
        waiting: allowed.at_once.saturating_add(more),
    }
}

/// Whether a task that stands above it holds a place of the same key: that one waits for it. Read from the rows of
/// places alone: a task above it that is damaged keeps it from nothing.
pub(super) async fn is_within_another(
    engine: &Engine,
    row: &TaskRow,
    key: &str,
) -> Result<bool, StoreError> {
    if row.parent.is_none() {
        return Ok(false);
    }
    let store = &engine.ports.store;
    let above = store.above(&[row.id]).await?;
    let places = store.places(&PlaceQuery::Tasks(above)).await?;
    Ok(places.iter().any(|it| it.no.is_some() && it.key == key))
}

/// Why a task is put to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleeps {
    /// Until there is a place: so many may be under way.
    ForAPlace(u32),
    /// For this time: another submission of its key may replace it.
    For(Duration),
}

/// Puts a task to sleep.
///
/// # Errors
/// As any change of a task.
pub(crate) async fn sleep(
    engine: &Engine,
    task_type: &TaskType,
    record: TaskRecord,
    why: Sleeps,
) -> Result<(), ChangeError> {
    let (rev, key) = (record.task.rev, record.task.place_key.clone());
    let limit = super::limit_name(task_type.decl.name);
    let (reason, time, details) = match why {
        Sleeps::ForAPlace(at_once) => (
            WaitReason::Concurrency,
            LOOK_AGAIN,
            json!({"limit": limit, "at_once": at_once}),
        ),
        Sleeps::For(left) => (WaitReason::Debounce, left, json!({"limit": limit})),
    };
    let slept = engine.change(Author::anyone(&engine.id), task_type, record, |draft| {
        if draft.record().task.rev == rev {
            draft.claim(&engine.id, Duration::ZERO)?;
            draft.wait_with(reason, time, details.clone())?;
        }
        Ok(())
    });
    slept.await?;
    // A place that was given back before this was written has woken no sleeper.
    if let (Sleeps::ForAPlace(_), Some(key)) = (why, key) {
        wake_sleepers(engine, &key).await;
    }
    Ok(())
}
