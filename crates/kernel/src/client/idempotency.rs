//! What is known of a client's idempotency key before the request is committed. The row knows; a
//! hint only says whether it is worth a question. The commit refuses a key that is taken, whatever
//! the hint said.

use super::submission::{Submission, SubmitError, from_commit};
use crate::change::key_hints::hint;
use crate::change::queue_wait::QueueWait;
use crate::change::transition::{IdempotencyWrite, ReceiveWrite, Transition};
use crate::engine::Engine;
use crate::engine::time_limits::best_effort;
use crate::ports::CommitError;
use counterstep_contracts::TaskId;
use counterstep_contracts::workers::WorkerState;
use serde_json::Value;
use std::sync::Arc;

/// Maximum number of requests and tries from which one look takes a key: more than a request has tries while it waits.
const MOST_FREED: u32 = 16;

/// Fingerprint and answer of the first request with a key, as far as it pays to look before the
/// commit.
pub(super) async fn look(
    engine: &Engine,
    submission: &Submission,
) -> Result<Option<(String, Value)>, SubmitError> {
    let Some(key) = &submission.key else {
        return Ok(None);
    };
    let hint = hint(&submission.tenant, key);
    match best_effort(engine.ports.clock.as_ref(), engine.ports.hints.seen(&hint)).await {
        // Most keys are new. If this one is not, the commit says so.
        Some(Ok(false)) => Ok(None),
        Some(Ok(true)) | None => read(engine, submission).await,
        Some(Err(error)) => {
            tracing::debug!(%error, "no hint about an idempotency key: reading its row");
            read(engine, submission).await
        }
    }
}

/// The same from the row; `None`: there is none, or those that had the key came to nothing.
pub(super) async fn read(
    engine: &Engine,
    submission: &Submission,
) -> Result<Option<(String, Value)>, SubmitError> {
    let Some(key) = &submission.key else {
        return Ok(None);
    };
    for _ in 0..MOST_FREED {
        let store = &engine.ports.store;
        let Some(row) = store.idempotency(&submission.tenant, key).await? else {
            return Ok(None);
        };
        if let Some(finished) = row.finished {
            return Ok(Some(finished));
        }
        let Some(owner) = row.owner else {
            break;
        };
        if !is_gone(engine, &owner, row.task).await? {
            break;
        }
        free(engine, submission, key, row.task).await?;
        // A process that was only paused may have finished meanwhile, and the row of another lost try may be written: the row
        // decides, and the commit after it.
    }
    Err(SubmitError::InProgress)
}

/// The same in place of a refusal that comes before the commit, which would have found the key: what the first
/// request has taken must not refuse its repetition. The look may have gone by a hint.
pub(super) async fn first_or(
    engine: &Engine,
    submission: &Submission,
    refusal: SubmitError,
) -> Result<(String, Value), SubmitError> {
    read_and_remember(engine, submission).await?.ok_or(refusal)
}

/// As [`read`]; a repetition asks the row first from then on.
pub(super) async fn read_and_remember(
    engine: &Engine,
    submission: &Submission,
) -> Result<Option<(String, Value)>, SubmitError> {
    let first = read(engine, submission).await?;
    if let (Some(_), Some(key)) = (&first, &submission.key) {
        engine.remember_key(&submission.tenant, key).await;
    }
    Ok(first)
}

/// Whether the worker registry lists a process as lost or stopped. One that it does not list may
/// live. This one lives although its refresh may be late, and knows which of its requests came to nothing.
async fn is_gone(engine: &Engine, owner: &str, task: TaskId) -> Result<bool, SubmitError> {
    if owner == &*engine.id {
        return Ok(engine.abandoned.has(task));
    }
    let workers = engine.ports.store.workers().await?;
    let found = workers.rows.iter().find(|seen| seen.row.id == owner);
    Ok(found.is_some_and(|seen| seen.state(workers.now) != WorkerState::Alive))
}

/// Takes the key from a request that arrived at a process that is gone, or from a try of this process that was lost. If a process is
/// only paused, its submission finds the key taken or free, as any other would: of two requests with one
/// key at most one becomes a task. Its files are the sweep's, as those of any request that broke
/// off.
async fn free(
    engine: &Engine,
    submission: &Submission,
    key: &str,
    task: TaskId,
) -> Result<(), SubmitError> {
    tracing::info!(%task, "freeing an Idempotency-Key: the request that claimed it, or the try of one, came to nothing");
    let abandon = IdempotencyWrite::Abandon {
        tenant: submission.tenant.clone(),
        key: key.to_owned(),
    };
    match write(engine, task, None, Some(abandon)).await {
        // Stale: its task is there by now, and the key has its answer.
        Ok(()) | Err(CommitError::Stale) => Ok(()),
        Err(error) => Err(from_commit(error)),
    }
}

/// A change that concerns no task yet; refused as stale where there is one. Written a second time
/// it changes nothing.
pub(super) async fn write(
    engine: &Engine,
    task_id: TaskId,
    receive: Option<ReceiveWrite>,
    idempotency: Option<IdempotencyWrite>,
) -> Result<(), CommitError> {
    let transition = Transition {
        receive,
        idempotency,
        ..Transition::new(engine.new_change_id(), task_id)
    };
    engine
        .commit_new(&[Arc::new(transition)], QueueWait::Full)
        .await
}
