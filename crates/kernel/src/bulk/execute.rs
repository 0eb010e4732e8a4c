//! Executes bulk operations that are due, a slice at a time. Any number of processes may: each claims a
//! slice by writing it down and moving the due time. One that stops in the middle leaves a slice that
//! another one takes over; what was done of it shows in the journals of its tasks, so none is done twice.

use super::decide;
use super::operation::{CLAIM, Chosen, KIND, Operation, Outcome};
use crate::cancel::CancelToken;
use crate::dead_letters::Selection;
use crate::documents::{delete, postponed};
use crate::engine::Engine;
use crate::ports::{Document, DocumentQuery, Documents, StoreError, TaskLine};
use crate::record::DbTime;
use counterstep_contracts::bulk::{BulkAction, BulkStatus};
use counterstep_contracts::{TaskId, Tenant};
use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Tasks of a slice: so many as are done with long before a claim is over. Those that run again may have
/// files to be copied.
const fn slice_of(action: BulkAction) -> usize {
    match action {
        BulkAction::Redrive | BulkAction::Resolve | BulkAction::Cancel => 200,
        BulkAction::RunAgain => 32,
    }
}

/// Of these side by side.
const AT_ONCE: usize = 16;

/// Pages that are walked for one slice. Where none of them has a task that fits, the place is noted.
const PAGES: usize = 20;

/// Operations that a process executes side by side.
const OPERATIONS: usize = 8;

/// How often a process looks for operations where it has found none.
const EVERY: Duration = Duration::from_secs(1);

/// After this of a look that could not read or write them.
const AGAIN: Duration = Duration::from_secs(5);

/// One that this program cannot read is left to others for so long: a newer one may have written it.
const UNREADABLE: Duration = Duration::from_secs(3600);

/// Executes those that are due until `shutdown`. A slice that was begun is finished.
pub async fn serve(engine: Engine, shutdown: CancelToken) {
    let mut under_way = UnderWay::default();
    while !shutdown.is_cancelled() {
        let pause = match begin_due(&engine, &mut under_way).await {
            Ok(()) => EVERY,
            Err(error) => unanswered(&error),
        };
        let mut pause = engine.ports.clock.sleep(pause).fuse();
        loop {
            tokio::select! {
                () = &mut pause => break,
                _ = shutdown.cancelled() => break,
                Some(ended) = under_way.next() => match ended {
                    // There may be more to do of it.
                    Ok(()) => break,
                    Err(error) => pause = engine.ports.clock.sleep(unanswered(&error)).fuse(),
                },
            }
        }
    }
    while under_way.next().await.is_some() {}
}

fn unanswered(error: &StoreError) -> Duration {
    tracing::warn!(%error, "bulk operations wait: the database does not answer as asked");
    AGAIN
}

/// The slices that this process executes, each beside the others: one whose files take long to copy holds up none.
#[derive(Default)]
struct UnderWay {
    slices: FuturesUnordered<BoxFuture<'static, (Id, Result<(), StoreError>)>>,
    ids: BTreeSet<Id>,
}

/// The tenant and the name of an operation.
type Id = (Tenant, String);

impl UnderWay {
    async fn next(&mut self) -> Option<Result<(), StoreError>> {
        let (id, ended) = self.slices.next().await?;
        self.ids.remove(&id);
        Some(ended)
    }
}

/// Begins a slice of each operation that is due, as far as there is room.
async fn begin_due(engine: &Engine, under_way: &mut UnderWay) -> Result<(), StoreError> {
    let room = OPERATIONS.saturating_sub(under_way.ids.len());
    if room == 0 {
        return Ok(());
    }
    // The claim of one that is under way may be over.
    let due = due(engine, OPERATIONS + under_way.ids.len()).await?;
    let id = |document: &Document| (document.tenant.clone(), document.name.clone());
    let mut others = due.rows;
    others.retain(|document| !under_way.ids.contains(&id(document)));
    for document in others.into_iter().take(room) {
        let (engine, id) = (engine.clone(), id(&document));
        under_way.ids.insert(id.clone());
        under_way.slices.push(Box::pin(async move {
            let ended = slice(&engine, document, due.now).await;
            (id, ended)
        }));
    }
    Ok(())
}

async fn due(engine: &Engine, limit: usize) -> Result<Documents, StoreError> {
    let query = DocumentQuery::Due {
        kind: KIND,
        after: None,
        limit: u32::try_from(limit).unwrap_or(u32::MAX),
    };
    engine.ports.store.documents(&query).await
}

/// One slice of each operation that is due, of all of them to its end: for those who wait for it. How many there were.
///
/// # Errors
/// [`StoreError`]: what was begun is gone on with when its claim is over.
pub fn work(engine: &Engine) -> BoxFuture<'_, Result<usize, StoreError>> {
    Box::pin(async move {
        let due = due(engine, OPERATIONS).await?;
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
        operation
            .slice
            .extend(chosen.by_ref().take(slice_of(operation.spec.action)));
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

/// The tasks of a cancel above those of its slice, the topmost first, whether or not they are of the slice. They are
/// cancelled before: the end of a task wakes the one above it, which fails by it, or goes on.
async fn above(engine: &Engine, operation: &Operation) -> Result<Vec<Chosen>, StoreError> {
    let (store, spec) = (&*engine.ports.store, &operation.spec);
    if spec.action != BulkAction::Cancel {
        return Ok(Vec::new());
    }
    let ids: Vec<TaskId> = operation.slice.iter().map(|it| it.task).collect();
    let above = store.above(&ids).await?;
    if above.is_empty() {
        return Ok(Vec::new());
    }
    let lines = store.lines(&above).await?;
    let is_selected =
        |line: &&TaskLine| spec.selection.has(line) && Selection::is_of(line, operation.created_at);
    let selected = lines.iter().filter(is_selected).map(|line| Chosen {
        task: line.task,
        rev: line.rev,
    });
    // One of the slice keeps the revision at which it was chosen.
    let all = selected.chain(operation.slice.iter().copied());
    let mut all: BTreeMap<TaskId, Chosen> = all.map(|it| (it.task, it)).collect();
    let first = above.iter().filter_map(|task| all.remove(task));
    Ok(first.collect())
}

async fn execute(
    engine: &Engine,
    id: &str,
    operation: &Operation,
) -> Result<Vec<(TaskId, Outcome)>, StoreError> {
    let mut rest: BTreeMap<TaskId, Chosen> =
        operation.slice.iter().map(|it| (it.task, *it)).collect();
    let mut outcomes = Vec::with_capacity(rest.len());
    for chosen in above(engine, operation).await? {
        let outcome = decide::one(engine, id, operation, chosen).await?;
        // One that is not cancelled now is counted when it is chosen itself.
        if rest.remove(&chosen.task).is_some() || outcome == Outcome::Done {
            outcomes.push((chosen.task, outcome));
        }
    }
    // The newest first.
    let tasks = rest.into_values().rev().map(|chosen| async move {
        let outcome = decide::one(engine, id, operation, chosen).await?;
        Ok::<_, StoreError>((chosen.task, outcome))
    });
    let mut tasks = stream::iter(tasks).buffer_unordered(AT_ONCE);
    // One that fails for now does not cut off the others: what they have begun would stand half done.
    let mut failed = None;
    while let Some(outcome) = tasks.next().await {
        match outcome {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(outcomes), Err)
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
