//! Executes bulk operations that are due, a slice at a time. Any number of processes may: each claims a
//! slice by writing it down and moving the due time. One that stops in the middle leaves a slice that
//! another one takes over; what was done of it shows in the journals of its tasks, so none is done twice.

use super::admin;
use super::decide;
use super::decided::forget;
use super::error::BulkError;
use super::operation::{CLAIM, KIND, Operation};
use super::outcome::{Chosen, Outcome};
use super::pacing::{Breakers, breakers};
use crate::cancel::CancelToken;
use crate::dead_letters::Selection;
use crate::documents::{Edit, busy, edit};
use crate::engine::Engine;
use crate::host::under_way::UnderWay;
use crate::ports::{Clock, Document, DocumentQuery, DuePlace, StoreError, TaskLine};
use crate::record::DbTime;
use counterstep_contracts::bulk::{BulkAction, BulkStatus};
use counterstep_contracts::{TaskId, Tenant};
use futures::{StreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Tasks of a slice: few enough to finish long before the claim ends. Those that run again may have files to
/// be copied.
const fn slice_of(action: BulkAction) -> usize {
    match action {
        BulkAction::Redrive | BulkAction::Resolve | BulkAction::Cancel => 200,
        BulkAction::RunAgain => 32,
    }
}

/// Maximum number of tasks of a slice that are decided at a time.
const AT_ONCE: usize = 16;

/// Maximum number of pages that are read for one slice. Where none of them has a task that fits, the position
/// is noted.
const PAGES: usize = 20;

/// Maximum number of operations that a process executes at a time.
const OPERATIONS: usize = 8;

/// Maximum number of due operations of one poll.
const DUE: u32 = 100;

/// How often a process looks for operations where it has found none.
const EVERY: Duration = Duration::from_secs(1);

/// Pause before a poll that could not read them is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// How long an operation with which this process cannot go on is left to other processes. Its due time stays:
/// for those that know its tasks and have its key it is due meanwhile.
const LEFT: Duration = Duration::from_secs(10);

/// That an operation is left is logged once, and again only when it has not been left for this time.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// Executes those that are due until `shutdown`. A slice that was begun is finished.
pub async fn serve(engine: Engine, shutdown: CancelToken) {
    let mut slices = Slices::of(engine.ports.clock.clone());
    while !shutdown.is_cancelled() {
        let pause = match begin_due(&engine, &mut slices).await {
            Ok(()) => EVERY,
            Err(error) => {
                tracing::warn!(%error, "bulk operations wait: the database does not answer as asked");
                AGAIN
            }
        };
        tokio::select! {
            biased;
            _ = shutdown.cancelled() => {}
            () = engine.ports.clock.sleep(pause) => {}
            // There may be more to do of it.
            Some(()) = slices.next() => {}
        }
    }
    while slices.next().await.is_some() {}
}

/// The slices that this process executes, each beside the others: one whose files take long to copy delays no other.
struct Slices {
    clock: Arc<dyn Clock>,
    under_way: UnderWay<Id>,
    ids: BTreeSet<Id>,
    /// Those that are left to others, and until when.
    left: BTreeMap<Id, Duration>,
    /// Where the last look ended before it had seen all that are due.
    after: Option<DuePlace>,
}

/// The tenant and the name of an operation.
type Id = (Tenant, String);

impl Slices {
    fn of(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            under_way: UnderWay::default(),
            ids: BTreeSet::new(),
            left: BTreeMap::new(),
            after: None,
        }
    }

    fn is_full(&self) -> bool {
        self.ids.len() >= OPERATIONS
    }

    /// Whether it is to be begun now: its claim may be over while it is under way.
    fn is_free(&self, id: &Id) -> bool {
        let until = self.left.get(id);
        let is_left = until.is_some_and(|until| *until > self.clock.monotonic());
        !is_left && !self.ids.contains(id)
    }

    fn begin(
        &mut self,
        id: Id,
        slice: impl Future<Output = Result<(), StoreError>> + Send + 'static,
    ) {
        self.ids.insert(id.clone());
        self.under_way.begin(id, slice);
    }

    fn leave(&mut self, id: Id, error: &StoreError) {
        let now = self.clock.monotonic();
        self.left.retain(|_, until| *until + FORGOTTEN > now);
        let name = id.1.clone();
        if self.left.insert(id, now + LEFT).is_none() {
            tracing::warn!(operation = name, %error, "a bulk operation is left to other processes");
        }
    }

    async fn next(&mut self) -> Option<()> {
        let (id, ended) = self.under_way.next().await?;
        self.ids.remove(&id);
        if let Err(error) = ended {
            self.leave(id, &error);
        }
        Some(())
    }
}

/// Begins a slice of each operation that is due, as far as there is room. Each look goes on where the last one ended, so
/// that none waits behind those that are left to others.
async fn begin_due(engine: &Engine, slices: &mut Slices) -> Result<(), StoreError> {
    let query = DocumentQuery::Due {
        kind: KIND,
        after: slices.after.clone(),
        limit: DUE,
    };
    let read = engine.ports.store.documents(&query);
    let due = slices.under_way.until(read).await?;
    let is_last = due.rows.len() < DUE as usize;
    for document in due.rows {
        if slices.is_full() {
            return Ok(());
        }
        slices.after = document.due_place();
        let id = (document.tenant.clone(), document.name.clone());
        if !slices.is_free(&id) {
            continue;
        }
        match Operation::read(&document) {
            Ok(operation) => {
                let engine = engine.clone();
                slices.begin(id, async move {
                    slice(&engine, document, operation, due.now).await
                });
            }
            // A newer program has written it, or the key of its tenant is not here.
            Err(error) => slices.leave(id, &error),
        }
    }
    if is_last {
        slices.after = None;
    }
    Ok(())
}

async fn slice(
    engine: &Engine,
    document: Document,
    mut operation: Operation,
    read_at: DbTime,
) -> Result<(), StoreError> {
    let store = &engine.ports.store;
    if operation.status.has_ended() {
        return forget(store, document, &operation).await;
    }
    let id = &document.name;
    if operation.status == BulkStatus::Paused && operation.slice.is_empty() {
        // No person has resumed it in time.
        let stopped = admin::stop(store, &document.tenant, id, "counterstep").await;
        return stopped.map(drop).or_else(of_stop);
    }
    // What another process has begun comes first.
    if operation.slice.is_empty() && operation.status == BulkStatus::Running {
        let due = next_slice(engine, &mut operation, read_at).await?;
        if let Some(due) = due {
            let held = operation.write(id, document.rev, due)?;
            return store.put_document(&held).await.map(drop);
        }
    }
    if operation.slice.is_empty() {
        // There is no further one, or it was stopped.
        operation.count(&[]);
        let mut writes = operation.take_pages(id)?;
        writes.push(operation.write(id, document.rev, operation.due(read_at))?);
        return store.put(&writes).await.map(drop);
    }
    let owner = format!("{}/{}", engine.id, document.rev.0 + 1);
    operation.owner = Some(owner.clone());
    let claim = operation.write(id, document.rev, read_at.later(CLAIM))?;
    if store.put_document(&claim).await?.is_none() {
        return Ok(()); // Another process has claimed it, or it was stopped.
    }
    let outcomes = execute(engine, id, &operation, read_at).await?;
    finish(engine, &document, &owner, outcomes).await
}

/// Makes the next tasks the slice. The time at which it is looked at again, where it pauses or waits instead.
async fn next_slice(
    engine: &Engine,
    operation: &mut Operation,
    now: DbTime,
) -> Result<Option<DbTime>, StoreError> {
    if let Some(pacing) = &mut operation.pacing {
        pacing.look(engine).await?;
        let waits = pacing.waits_for_tasks(now);
        operation.pause_where_it_should();
        if operation.status == BulkStatus::Paused {
            return Ok(Some(operation.due(now)));
        }
        if waits.is_some() {
            return Ok(waits);
        }
    }
    let mut tries_one = false;
    if !operation.is_at_undecided() {
        let mut chosen = choose(engine, operation).await?;
        if let Some(pacing) = &mut operation.pacing {
            match breakers(engine, &chosen.types).await? {
                Breakers::Closed => {}
                Breakers::HalfOpen => {
                    chosen.keep_one();
                    tries_one = true;
                }
                Breakers::Open(name) => {
                    // Those before it had none that fits.
                    operation.before = chosen.from;
                    return Ok(Some(pacing.waits_for_breaker(&name, now)));
                }
            }
        }
        operation.slice = chosen.slice;
        operation.before = chosen.before;
        operation.is_last = chosen.is_last;
    }
    if operation.slice.is_empty() && operation.is_at_undecided() {
        let most = operation.most(slice_of(operation.spec.action));
        operation.take_undecided(most, now);
    }
    let tasks = operation.slice.len();
    if let Some(pacing) = &mut operation.pacing {
        pacing.begin(tasks, now);
        if tries_one {
            pacing.waits_for_it(now);
        }
    }
    Ok(None)
}

/// The next tasks of an operation.
struct Choice {
    slice: Vec<Chosen>,
    /// The types of those that are to go on.
    types: BTreeSet<String>,
    /// Those before this one had none that fits; and the next ones are behind that one.
    from: Option<TaskId>,
    before: Option<TaskId>,
    is_last: bool,
}

impl Choice {
    /// The others are chosen again.
    fn keep_one(&mut self) {
        if self.slice.len() > 1 {
            self.slice.truncate(1);
            self.before = self.slice.last().map(|last| last.task);
            self.is_last = false;
        }
    }
}

async fn choose(engine: &Engine, operation: &Operation) -> Result<Choice, StoreError> {
    let store = &engine.ports.store;
    let action = operation.spec.action;
    let most = operation.most(slice_of(action));
    let mut choice = Choice {
        slice: Vec::new(),
        types: BTreeSet::new(),
        from: operation.before,
        before: operation.before,
        is_last: false,
    };
    for _ in 0..PAGES {
        choice.from = choice.before;
        let page = operation.spec.selection.page(store, choice.before).await?;
        choice.before = page.next;
        choice.is_last = page.next.is_none();
        let created_at = operation.created_at;
        let mut of_then = page
            .lines
            .iter()
            .filter(|line| Selection::is_of(line, created_at));
        for line in of_then.by_ref().take(most) {
            let chosen = Chosen::of(line, action);
            choice.slice.push(chosen);
            if chosen.forward {
                choice.types.insert(line.task_type.clone());
            }
        }
        if of_then.next().is_some() {
            choice.before = choice.slice.last().map(|last| last.task);
            choice.is_last = false;
        }
        if choice.is_last || !choice.slice.is_empty() {
            break;
        }
    }
    Ok(choice)
}

/// It was changed meanwhile, or is gone: the next look sees that.
fn of_stop(error: BulkError) -> Result<(), StoreError> {
    match error {
        BulkError::Store(error) => Err(error),
        BulkError::Gone | BulkError::TooMany | BulkError::Renamed(_) | BulkError::Moved => Ok(()),
    }
}

/// The tasks of a cancel above those of its slice, the topmost first, whether or not they are of the slice. They are
/// cancelled before: the end of a task wakes the one above it, which fails by it, or goes on.
async fn above(engine: &Engine, operation: &Operation) -> Result<Vec<Chosen>, StoreError> {
    let (store, spec) = (&engine.ports.store, &operation.spec);
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
    let selected = lines.iter().filter(is_selected);
    let selected = selected.map(|line| Chosen::of(line, spec.action));
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
    read_at: DbTime,
) -> Result<Vec<(Chosen, Outcome)>, StoreError> {
    let waits = operation.waits(read_at);
    let decide = |chosen: Chosen| async move {
        let mut outcome = decide::one(engine, id, operation, chosen).await?;
        if !waits {
            outcome.give_up();
        }
        Ok::<_, StoreError>((chosen, outcome))
    };
    let mut rest: BTreeMap<TaskId, Chosen> =
        operation.slice.iter().map(|it| (it.task, *it)).collect();
    let (mut outcomes, mut undecided) = (Vec::with_capacity(rest.len()), Vec::new());
    for chosen in above(engine, operation).await? {
        let (_, outcome) = decide(chosen).await?;
        undecided.extend(outcome.undecided().map(|_| chosen.task));
        // One that is not cancelled now is counted when it is chosen itself.
        if rest.remove(&chosen.task).is_some() || outcome == Outcome::DONE {
            outcomes.push((chosen, outcome));
        }
    }
    let undecided = &undecided;
    // The newest first.
    let tasks = rest.into_values().rev().map(|chosen| async move {
        if !undecided.is_empty() {
            let above = engine.ports.store.above(&[chosen.task]).await?;
            if let Some(waits_for) = above.iter().find(|task| undecided.contains(task)) {
                let why = format!("task {waits_for}, which is above it, has to be first");
                return Ok((chosen, Outcome::Undecided(why)));
            }
        }
        decide(chosen).await
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
///
/// # Errors
/// [`StoreError`]; also where this process cannot continue the operation.
async fn finish(
    engine: &Engine,
    document: &Document,
    owner: &str,
    outcomes: Vec<(Chosen, Outcome)>,
) -> Result<(), StoreError> {
    // Where this process has decided on none of them, it would come to the same at once.
    let whys = outcomes.iter().map(|(_, outcome)| outcome.undecided());
    let whys: Option<Vec<&str>> = whys.collect();
    let why = whys.and_then(|whys| whys.first().map(|why| (*why).to_owned()));
    let store = &engine.ports.store;
    let names = [document.name.as_str()];
    let left = edit(store, KIND, &document.tenant, &names, |found| {
        let Some(there) = found.rows.into_iter().next() else {
            return Ok(Edit::keep(false));
        };
        let mut operation = Operation::read(&there)?;
        // Another process has taken it over, and counts for itself.
        if operation.owner.as_deref() != Some(owner) {
            return Ok(Edit::keep(false));
        }
        operation.count(&outcomes);
        let pages = operation.take_pages(&there.name)?;
        let write = operation.write(&there.name, there.rev, operation.due(found.now))?;
        Ok::<_, StoreError>(Edit::write(write, operation.is_at_undecided()).along(pages))
    });
    // What was done stands in the journals of the tasks: the next execution of the slice only counts it.
    let is_at_undecided = left.await?.ok_or_else(|| busy(KIND))?;
    match why.filter(|_| is_at_undecided) {
        Some(why) => Err(StoreError::Unsupported(why)),
        None => Ok(()),
    }
}
