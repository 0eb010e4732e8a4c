//! Executes bulk operations that are due, a slice at a time. Any number of processes may: each claims a
//! slice by writing it down and moving the due time. One that stops in the middle leaves a slice that
//! another one takes over; what was done of it shows in the journals of its tasks, so none is done twice.

use super::operation::{BulkSpec, CLAIM, Chosen, KIND, Operation, Outcome};
use crate::cancel::CancelToken;
use crate::change::ChangeError;
use crate::dead_letters::Selection;
use crate::documents::{delete, postponed};
use crate::draft::BULK;
use crate::engine::Engine;
use crate::load;
use crate::operator::{self, OfBulk, OperatorError, Resolution, Retrial};
use crate::ports::{Document, DocumentQuery, StoreError};
use crate::record::{DbTime, TaskRow};
use counterstep_contracts::bulk::{BulkAction, BulkStatus};
use counterstep_contracts::operator::{OperatorAnswer, SettledAs};
use counterstep_contracts::{Rev, TaskId};
use futures::future::{BoxFuture, join_all};
use futures::{FutureExt, StreamExt, stream};
use std::time::Duration;

/// Tasks of a slice.
const SLICE: usize = 200;

/// Of these side by side.
const AT_ONCE: usize = 16;

/// So often another writer may be faster before a task is left alone.
const TRIES: u32 = 5;

/// Pages that are walked for one slice. Where none of them has a task that fits, the place is noted.
const PAGES: usize = 20;

/// Operations that a process executes side by side.
const OPERATIONS: u32 = 8;

/// How often a process looks for operations where it has found none.
const EVERY: Duration = Duration::from_secs(1);

/// After this of a look that could not read or write them.
const AGAIN: Duration = Duration::from_secs(5);

/// One that this program cannot read is left to others for so long: a newer one may have written it.
const UNREADABLE: Duration = Duration::from_secs(3600);

/// Executes those that are due until `shutdown`. A slice that was begun is finished.
pub async fn serve(engine: Engine, shutdown: CancelToken) {
    while !shutdown.is_cancelled() {
        let pause = match work(&engine).await {
            Ok(0) => EVERY,
            Ok(_) => continue,
            Err(error) => {
                tracing::warn!(%error, "bulk operations wait: the database does not answer as asked");
                AGAIN
            }
        };
        let mut pause = engine.ports.clock.sleep(pause).fuse();
        tokio::select! {
            () = &mut pause => {}
            _ = shutdown.cancelled() => {}
        }
    }
}

/// One slice of each operation that is due. How many there were.
///
/// # Errors
/// [`StoreError`]: what was begun is gone on with when its claim is over.
pub fn work(engine: &Engine) -> BoxFuture<'_, Result<usize, StoreError>> {
    Box::pin(async move {
        let query = DocumentQuery::Due {
            kind: KIND,
            after: None,
            limit: OPERATIONS,
        };
        let due = engine.ports.store.documents(&query).await?;
        let slices = due
            .rows
            .into_iter()
            .map(|document| slice(engine, document, due.now));
        let worked = join_all(slices).await;
        let found = worked.len();
        worked.into_iter().collect::<Result<Vec<()>, _>>()?;
        Ok(found)
    })
}

async fn slice(engine: &Engine, document: Document, read_at: DbTime) -> Result<(), StoreError> {
    let store = &*engine.ports.store;
    let mut operation = match Operation::read(&document) {
        Ok(operation) if operation.status.has_ended() => {
            let gone = delete(KIND, document.tenant, document.name, document.rev);
            return store.put_document(&gone).await.map(drop);
        }
        Ok(operation) => operation,
        Err(error) => {
            tracing::error!(operation = document.name, %error, "a bulk operation cannot be read");
            let later = postponed(KIND, &document, read_at.later(UNREADABLE));
            return store.put_document(&later).await.map(drop);
        }
    };
    let id = &document.name;
    // What another process has begun comes first.
    if operation.slice.is_empty() && operation.status == BulkStatus::Running {
        choose(engine, &mut operation).await?;
    }
    if operation.slice.is_empty() {
        // There is no further one, or it was stopped.
        operation.count(&[]);
        let ended = operation.write(id, document.rev, operation.due(read_at))?;
        return store.put_document(&ended).await.map(drop);
    }
    let owner = format!("{}/{}", engine.id, document.rev.0 + 1);
    operation.owner = Some(owner.clone());
    let claim = operation.write(id, document.rev, read_at.later(CLAIM))?;
    if store.put_document(&claim).await?.is_none() {
        return Ok(()); // Another process has claimed it, or it was stopped.
    }
    let outcomes = execute(engine, id, &operation).await?;
    finish(engine, &document, &owner, outcomes).await
}

/// The next tasks.
async fn choose(engine: &Engine, operation: &mut Operation) -> Result<(), StoreError> {
    let store = &*engine.ports.store;
    for _ in 0..PAGES {
        let page = operation
            .spec
            .selection
            .page(store, operation.before)
            .await?;
        operation.before = page.next;
        operation.is_last = page.next.is_none();
        let created_at = operation.created_at;
        let of_then = page
            .lines
            .iter()
            .filter(|line| Selection::is_of(line, created_at));
        let mut chosen = of_then.map(|line| Chosen {
            task: line.task,
            rev: line.rev,
        });
        operation.slice.extend(chosen.by_ref().take(SLICE));
        if chosen.next().is_some() {
            operation.before = operation.slice.last().map(|last| last.task);
            operation.is_last = false;
        }
        if operation.is_last || !operation.slice.is_empty() {
            break;
        }
    }
    Ok(())
}

async fn execute(
    engine: &Engine,
    id: &str,
    operation: &Operation,
) -> Result<Vec<(TaskId, Outcome)>, StoreError> {
    let tasks = operation
        .slice
        .clone()
        .into_iter()
        .map(|chosen| async move {
            let outcome = one(engine, id, operation, chosen).await?;
            Ok::<_, StoreError>((chosen.task, outcome))
        });
    let mut outcomes = Vec::with_capacity(operation.slice.len());
    let mut tasks = stream::iter(tasks).buffer_unordered(AT_ONCE);
    while let Some(outcome) = tasks.next().await {
        outcomes.push(outcome?);
    }
    Ok(outcomes)
}

async fn one(
    engine: &Engine,
    id: &str,
    operation: &Operation,
    Chosen { task, rev }: Chosen,
) -> Result<Outcome, StoreError> {
    let mut rev = rev;
    for _ in 0..TRIES {
        match decide(engine, id, &operation.spec, task, rev).await {
            Ok(_) => return Ok(Outcome::Done),
            Err(OperatorError::Moved | OperatorError::NotParked(_)) => {}
            Err(OperatorError::Gone | OperatorError::Change(ChangeError::Gone)) => break,
            Err(OperatorError::Change(ChangeError::Store(error))) if !is_of_the_task(&error) => {
                return Err(error);
            }
            Err(error) => return Ok(Outcome::Failed(error.to_string())),
        }
        // Changed by this operation, before the process that did it ended; by others; or by a sweep of its
        // objects, which is no change for people. The revision is read before the journal: where that has
        // no entry of this operation, there was none at that revision.
        let there = load::read(engine, task).await?;
        if was_done(engine, id, task).await? {
            return Ok(Outcome::Done);
        }
        let same = |row: &TaskRow| {
            row.status.is_parked() && row.updated_at <= operation.created_at && row.rev != rev
        };
        match there.filter(|there| same(&there.task)) {
            Some(there) => rev = there.task.rev,
            None => break,
        }
    }
    Ok(Outcome::Skipped)
}

async fn decide(
    engine: &Engine,
    id: &str,
    spec: &BulkSpec,
    task: TaskId,
    rev: Rev,
) -> Result<OperatorAnswer, OperatorError> {
    let (actor, note) = (spec.actor.clone(), spec.note.clone());
    let id = id.to_owned();
    let bulk = Some(OfBulk { id, rev });
    match spec.action {
        BulkAction::Redrive => {
            let retrial = Retrial {
                direction: None,
                actor,
                note,
                bulk,
            };
            operator::retry(engine, task, retrial).await
        }
        BulkAction::Resolve => {
            let resolution = Resolution {
                step: None,
                settled: spec.settled.unwrap_or(SettledAs::Skipped),
                output: None,
                actor,
                note,
                bulk,
            };
            operator::resolve(engine, task, resolution).await
        }
    }
}

/// Whether an error is of this task alone: it will not go away.
const fn is_of_the_task(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt(_) | StoreError::Unsupported(_))
}

/// Whether the journal of a task has an entry of this operation.
async fn was_done(engine: &Engine, id: &str, task: TaskId) -> Result<bool, StoreError> {
    let history = match engine.ports.store.history(task).await {
        Err(error) if is_of_the_task(&error) => return Ok(false),
        history => history?,
    };
    let mut entries = history.audit.iter().rev();
    Ok(entries.any(|row| row.entry.details[BULK] == id))
}

/// Notes what became of a slice, also where the operation was stopped meanwhile.
async fn finish(
    engine: &Engine,
    document: &Document,
    owner: &str,
    outcomes: Vec<(TaskId, Outcome)>,
) -> Result<(), StoreError> {
    let store = &*engine.ports.store;
    let query = DocumentQuery::Named {
        kind: KIND,
        tenant: document.tenant.clone(),
        names: vec![document.name.clone()],
    };
    loop {
        let found = store.documents(&query).await?;
        let Some(there) = found.rows.into_iter().next() else {
            return Ok(());
        };
        let mut operation = Operation::read(&there)?;
        // Another process has taken it over, and counts for itself.
        if operation.owner.as_deref() != Some(owner) {
            return Ok(());
        }
        operation.count(&outcomes);
        let write = operation.write(&there.name, there.rev, operation.due(found.now))?;
        if store.put_document(&write).await?.is_some() {
            return Ok(());
        }
    }
}
