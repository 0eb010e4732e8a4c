//! Whether a task that is to be claimed may start: it holds a place, needs none, or there is one for it. What is
//! found out on the way is done at once: sleepers for whom there is a place are woken, and older tasks make
//! room for newer ones.

use super::decide::{Verdict, decide};
use super::wake::wake_sleepers;
use super::{Allowed, allowed, give_way};
use crate::admission::gate::{Gate, Hold};
use crate::change::{Author, ChangeError};
use crate::children;
use crate::engine::Engine;
use crate::ports::{First, PlaceQuery, StoreError};
use crate::record::{TaskRecord, TaskRow};
use crate::task::TaskType;
use counterstep_contracts::{Beyond, TaskStatus};
use std::time::Duration;

/// A task that sleeps for a place is woken when there is one. It looks for itself after this, whatever happens.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// Older tasks that one look asks to make room, beside those that hold a place.
const AT_A_TIME: u32 = 100;

/// Whether a task may be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It may, with the place of this number; `None`: it needs no place, or holds one.
    Goes(Option<u32>),
    /// It may not: it sleeps, or was cancelled, since a newer task has its place.
    GivenBack,
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

/// Asks for a task that nothing else keeps from being claimed, and puts it to sleep where it has to wait.
///
/// # Errors
/// When the store does not answer, or a task cannot be changed.
pub(crate) async fn ask(
    engine: &Engine,
    task_type: &TaskType,
    record: &TaskRecord,
) -> Result<Asked, ChangeError> {
    match record
        .task
        .place_key
        .as_ref()
        .filter(|_| needs_place(record))
    {
        Some(key) => Box::pin(ask_for(engine, task_type, record, key)).await,
        None => Ok(Asked::Goes(None)),
    }
}

async fn ask_for(
    engine: &Engine,
    task_type: &TaskType,
    record: &TaskRecord,
    key: &str,
) -> Result<Asked, ChangeError> {
    let row = &record.task;
    let Some(allowed) = allowed(engine, task_type.decl.name).await else {
        return Ok(Asked::Goes(None));
    };
    if is_within_another(engine, row, key).await? {
        return Ok(Asked::Goes(None));
    }
    let rows = engine.ports.store.places(&look(key, allowed)).await?;
    let decided = decide(&rows, (row.created_at, row.id), allowed, record.now);
    for task in decided.wake {
        children::wake(engine, task).await?;
    }
    for task in decided.cancel {
        give_way(engine, task, row.id).await?;
    }
    let limit = super::limit_name(task_type.decl.name);
    match decided.verdict {
        Verdict::Free(no) => return Ok(Asked::Goes(Some(no))),
        Verdict::Replaced(by) => {
            tracing::debug!(task = %row.id, %by, "replaced before it started");
            give_way(engine, row.id, by).await?;
        }
        Verdict::Early(left) => {
            let gate = Gate::Debounce(limit);
            sleep(engine, task_type, record, Hold { gate, left }).await?;
        }
        Verdict::Full => {
            let gate = Gate::Place {
                limit,
                at_once: allowed.at_once,
            };
            let left = LOOK_AGAIN;
            sleep(engine, task_type, record, Hold { gate, left }).await?;
            // A place that was given back before this was written has woken no sleeper.
            wake_sleepers(engine, key).await;
        }
    }
    Ok(Asked::GivenBack)
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

/// Puts a task to sleep, unless it has changed since it was read.
async fn sleep(
    engine: &Engine,
    task_type: &TaskType,
    record: &TaskRecord,
    hold: Hold,
) -> Result<(), ChangeError> {
    let rev = record.task.rev;
    let (reason, details) = hold.written();
    let author = Author::anyone(&engine.id);
    let slept = engine.change(author, task_type, record.clone(), |draft| {
        if draft.record().task.rev == rev {
            draft.claim(&engine.id, Duration::ZERO)?;
            draft.wait_with(reason, hold.left, details.clone())?;
        }
        Ok(())
    });
    slept.await.map(drop)
}
