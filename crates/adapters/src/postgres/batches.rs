//! Commits and loads of many tasks in one statement each, under load. A caller gets the answer that
//! it would have got alone. Must not decide anything about a task.

use super::commit::{self, Kind};
use super::fault::Fault;
use super::lease_heartbeats;
use super::lists;
use super::options::PostgresOptions;
use super::pool::Database;
use super::tasks;
use crate::batch::{Batcher, Entry, Flush, Limits, NoReply, Queued, Slot};
use counterstep_contracts::{Epoch, TaskId, Tenant};
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::ports::{
    CommitError, Committed, Heartbeat, LoadFor, Loaded, LoadedTask, StoreError,
};
use futures::FutureExt;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

/// Maximum number of statements of a kind under way at a time.
const WIDTH: usize = 3;

/// Changes, or tasks, that are worth a second statement beside the one under way.
const FULL: usize = 64;

/// Maximum number of changes, or tasks, of one statement.
const MOST: usize = 128;

/// How long a change waits for a lock while others wait for the change: those of its statement, and those in
/// the queue.
const BRIEFLY: Duration = Duration::from_millis(100);

/// What a batch replies to one of its requests.
enum Reply<T> {
    /// Its answer.
    Answer(T),
    /// Nothing was done for it in the batch: it should go alone, or in a later one.
    Alone,
}

struct Request<Q, A> {
    asks: Q,
    reply: oneshot::Sender<Reply<A>>,
}

struct Change {
    kind: Kind,
    guard: Guard,
    transition: Arc<Transition>,
}

type Write = Request<Change, Result<Committed, CommitError>>;
type Load = Request<(TaskId, LoadFor), Result<Option<Loaded>, StoreError>>;

type Successors = Request<(Tenant, TaskId), Result<Vec<TaskId>, StoreError>>;

type Beat = Request<(TaskId, Epoch, Duration), Result<Heartbeat, StoreError>>;

/// The batchers of one store. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Batches {
    database: Database,
    writes: Batcher<Write>,
    loads: Batcher<Load>,
    successors: Batcher<Successors>,
    beats: Batcher<Beat>,
    to_beat: Database,
    wait: Duration,
    briefly: Duration,
    patiently: Duration,
    /// Places for changes that wait for a lock alone. Each has a connection meanwhile, and the
    /// others need some, too.
    patient: Arc<Semaphore>,
}

impl Batches {
    /// `to_beat`: for the heartbeats, which must not stand behind commits that wait.
    pub(super) fn new(database: Database, to_beat: Database, options: &PostgresOptions) -> Self {
        let (to_write, to_load, to_find) = (database.clone(), database.clone(), database.clone());
        let briefly = BRIEFLY.min(options.lock_timeout);
        let write: Flush<Write> =
            Box::new(move |writes| write_all(to_write.clone(), writes, briefly).boxed());
        let load: Flush<Load> = Box::new(move |loads| load_all(to_load.clone(), loads).boxed());
        let find: Flush<Successors> =
            Box::new(move |asked| find_all(to_find.clone(), asked).boxed());
        let connections = to_beat.clone();
        let beat: Flush<Beat> = Box::new(move |beats| beat_all(connections.clone(), beats).boxed());
        let limits = Limits {
            width: WIDTH,
            full: FULL,
            wait: options.wait,
        };
        Self {
            writes: Batcher::new(limits, pick_writes, write),
            loads: Batcher::new(limits, pick_any, load),
            successors: Batcher::new(limits, pick_any, find),
            beats: Batcher::new(limits, pick_any, beat),
            to_beat,
            wait: options.wait,
            briefly,
            patiently: options.lock_timeout,
            patient: Arc::new(Semaphore::new((database.connections() / 2).max(1))),
            database,
        }
    }

    pub(super) async fn commit(
        &self,
        guard: Guard,
        transition: &Arc<Transition>,
    ) -> Result<Committed, CommitError> {
        let Some(kind) = commit::kind(guard, transition) else {
            return self.commit_alone(guard, transition, None).await;
        };
        let request = |reply| Request {
            asks: Change {
                kind,
                guard,
                transition: transition.clone(),
            },
            reply,
        };
        match self.writes.enter(request).await {
            Entry::Alone(slot) => self.commit_alone(guard, transition, Some(slot)).await,
            Entry::Batched(reply) => match self.replied(reply).map_err(CommitError::Store)? {
                Reply::Answer(result) => result,
                Reply::Alone => self.commit_alone(guard, transition, None).await,
            },
        }
    }

    /// Keeps the slot as long as that is brief: a change that meets a lock waits for it without
    /// one.
    async fn commit_alone(
        &self,
        guard: Guard,
        transition: &Transition,
        slot: Option<Slot<Write>>,
    ) -> Result<Committed, CommitError> {
        if !commit::has_statements(transition) {
            let written = self.write_alone(guard, transition, self.briefly).await;
            drop(slot);
            if !matches!(written, Err(Fault::Locked(_))) {
                return Ok(written?);
            }
        }
        let place = self.patient_place().await?;
        let written = self.write_alone(guard, transition, self.patiently).await;
        drop(place);
        Ok(written?)
    }

    /// Writes the first changes of tasks, all or none. It has a connection for itself, and may wait
    /// for a lock.
    pub(super) async fn commit_all(
        &self,
        submissions: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        let place = self.patient_place().await?;
        let written = async {
            let lent = self.database.lend().await?;
            let submissions: Vec<_> = submissions.iter().map(AsRef::as_ref).collect();
            let written = commit::write_new(&lent, &submissions, self.patiently).await;
            lent.settle(written)
        };
        let written: Result<Committed, Fault> = written.await;
        drop(place);
        Ok(written?)
    }

    async fn patient_place(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        match tokio::time::timeout(self.wait, self.patient.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(StoreError::Unavailable(format!(
                "no place to wait for a lock within {:?}: too many changes do",
                self.wait
            ))),
        }
    }

    async fn write_alone(
        &self,
        guard: Guard,
        transition: &Transition,
        lock: Duration,
    ) -> Result<Committed, Fault> {
        let lent = self.database.lend().await?;
        let written = commit::write(&lent, guard, transition, lock).await;
        lent.settle(written)
    }

    /// One task shares a statement with others that are asked for at the same time.
    pub(super) async fn load(
        &self,
        tasks: &[TaskId],
        purpose: LoadFor,
    ) -> Result<Vec<LoadedTask>, StoreError> {
        let (&[task], LoadFor::Look | LoadFor::Run) = (tasks, purpose) else {
            return self.load_alone(tasks, purpose).await;
        };
        let asks = (task, purpose);
        let found = match self.loads.enter(|reply| Request { asks, reply }).await {
            Entry::Alone(_slot) => return self.load_alone(tasks, purpose).await,
            Entry::Batched(reply) => match self.replied(reply)? {
                Reply::Answer(result) => result?,
                Reply::Alone => return self.load_alone(tasks, purpose).await,
            },
        };
        Ok(found.map(|found| (task, Ok(found))).into_iter().collect())
    }

    async fn load_alone(
        &self,
        tasks: &[TaskId],
        purpose: LoadFor,
    ) -> Result<Vec<LoadedTask>, StoreError> {
        let ids = tasks.iter().map(|task| task.0).collect();
        let load = tasks::load(ids, purpose);
        let rows: Vec<tasks::TaskRead> = match purpose {
            LoadFor::Confirm => self.database.confirmed(load).await?,
            _ => self.database.read(load).await?,
        };
        let loaded = tasks::decode(rows, |_| purpose).into_iter();
        Ok(loaded
            .map(|(task, read)| (task, read.map_err(StoreError::from)))
            .collect())
    }

    /// The tasks that run a task again.
    pub(super) async fn successors(
        &self,
        tenant: &Tenant,
        task: TaskId,
    ) -> Result<Vec<TaskId>, StoreError> {
        let of = (tenant.clone(), task);
        let request = |reply| Request {
            asks: of.clone(),
            reply,
        };
        match self.successors.enter(request).await {
            Entry::Alone(_slot) => self.successors_alone(of).await,
            Entry::Batched(reply) => match self.replied(reply)? {
                Reply::Answer(result) => result,
                Reply::Alone => self.successors_alone(of).await,
            },
        }
    }

    async fn successors_alone(&self, of: (Tenant, TaskId)) -> Result<Vec<TaskId>, StoreError> {
        let rows: Vec<(i64, Uuid)> = self.database.read(lists::successors([&of])?).await?;
        Ok(rows.into_iter().map(|(_, task)| TaskId(task)).collect())
    }

    /// Prolongs a lease, in one statement with the others whose time has come. While a change of the task is under way it comes
    /// again and again, as long as a statement may wait for a lock: that change may wait for a standby, and no heartbeat of
    /// another task is to wait behind it for a connection.
    pub(super) async fn heartbeat(
        &self,
        task: TaskId,
        epoch: Epoch,
        ttl: Duration,
    ) -> Result<Heartbeat, StoreError> {
        let until = Instant::now() + self.patiently;
        loop {
            match self.beat((task, epoch, ttl)).await? {
                Some(answer) => return Ok(answer),
                None if Instant::now() < until => tokio::time::sleep(self.briefly).await,
                None => {
                    let text =
                        format!("a change of the task is under way for {:?}", self.patiently);
                    return Err(StoreError::Unavailable(text));
                }
            }
        }
    }

    /// `None`: a change of the task is under way.
    async fn beat(&self, asks: (TaskId, Epoch, Duration)) -> Result<Option<Heartbeat>, StoreError> {
        match self.beats.enter(|reply| Request { asks, reply }).await {
            Entry::Alone(_slot) => Ok(lease_heartbeats::prolong(&self.to_beat, &[asks])
                .await?
                .of(asks)),
            Entry::Batched(reply) => match self.replied(reply)? {
                Reply::Answer(result) => result.map(Some),
                Reply::Alone => Ok(None),
            },
        }
    }

    fn replied<A>(&self, reply: Result<Reply<A>, NoReply>) -> Result<Reply<A>, StoreError> {
        reply.map_err(|error| match error {
            NoReply::TimedOut => {
                let text = format!(
                    "no turn at the database within {:?}: it is slow, or away",
                    self.wait
                );
                StoreError::Unavailable(text)
            }
            NoReply::Dropped => StoreError::Unknown("the process stops".to_owned()),
        })
    }
}

/// The changes that may share a statement with the first one: of one kind, and no two of one task.
/// In the order of their tasks, so that two statements never wait for each other.
fn pick_writes(queue: &mut VecDeque<Queued<Write>>) -> Vec<Queued<Write>> {
    let Some(kind) = queue.front().map(|first| first.request.asks.kind) else {
        return Vec::new();
    };
    let mut seen = HashSet::new();
    let (mut picked, mut left) = (Vec::new(), VecDeque::new());
    for queued in queue.drain(..) {
        let change = &queued.request.asks;
        let fits =
            picked.len() < MOST && change.kind == kind && seen.insert(change.transition.task_id);
        if fits {
            picked.push(queued)
        } else {
            left.push_back(queued)
        }
    }
    *queue = left;
    picked.sort_unstable_by_key(|queued| queued.request.asks.transition.task_id);
    picked
}

fn pick_any<T>(queue: &mut VecDeque<Queued<T>>) -> Vec<Queued<T>> {
    queue.drain(..queue.len().min(MOST)).collect()
}

async fn write_all(database: Database, writes: Vec<Write>, lock: Duration) {
    let written = async {
        let lent = database.lend().await?;
        let changes: Vec<_> = writes
            .iter()
            .map(|write| (write.asks.guard, &*write.asks.transition))
            .collect();
        let written = commit::write_all(&lent, &changes, lock).await;
        lent.settle(written)
    };
    let result: Result<Vec<commit::Outcome>, StoreError> = written.await.map_err(StoreError::from);
    for (at, Request { reply, .. }) in writes.into_iter().enumerate() {
        let answer = match &result {
            Ok(written) => written
                .get(at)
                .cloned()
                .flatten()
                .map_or(Reply::Alone, Reply::Answer),
            Err(error) => Reply::Answer(Err(CommitError::Store(error.clone()))),
        };
        // Fails only where the caller no longer waits.
        let _ = reply.send(answer);
    }
}

/// The reply to a read whose batch failed.
fn failed<T>(fault: &Fault) -> Reply<Result<T, StoreError>> {
    match fault {
        Fault::Unavailable(text) | Fault::Locked(text) => {
            Reply::Answer(Err(StoreError::Unavailable(text.clone())))
        }
        _ => Reply::Alone,
    }
}

async fn beat_all(database: Database, beats: Vec<Beat>) {
    let asked: Vec<_> = beats.iter().map(|beat| beat.asks).collect();
    // A connection may be dead without a sign of it, and the next ones go over another: as a heartbeat alone, which its caller
    // gives up.
    let shortest = asked.iter().map(|(.., ttl)| *ttl).min().unwrap_or_default();
    let leases = timeout(shortest / 3, lease_heartbeats::prolong(&database, &asked))
        .await
        .unwrap_or_else(|_| Err(Fault::Unavailable("no answer in time".to_owned())))
        .map_err(StoreError::from);
    for Request { asks, reply } in beats {
        let answer = match &leases {
            Ok(leases) => leases
                .of(asks)
                .map_or(Reply::Alone, |held| Reply::Answer(Ok(held))),
            Err(error) => Reply::Answer(Err(error.clone())),
        };
        // Fails only where the caller no longer waits.
        let _ = reply.send(answer);
    }
}

async fn find_all(database: Database, asked: Vec<Successors>) {
    let rows: Result<Vec<(i64, Uuid)>, Fault> = async {
        let of = lists::successors(asked.iter().map(|one| &one.asks))?;
        database.read(of).await
    }
    .await;
    let mut found: HashMap<i64, Vec<TaskId>> = HashMap::new();
    for (place, task) in rows.iter().flatten() {
        found.entry(*place).or_default().push(TaskId(*task));
    }
    for (place, Request { reply, .. }) in (1..).zip(asked) {
        // Fails only where the caller no longer waits.
        let _ = reply.send(match &rows {
            Ok(_) => Reply::Answer(Ok(found.remove(&place).unwrap_or_default())),
            Err(fault) => failed(fault),
        });
    }
}

async fn load_all(database: Database, loads: Vec<Load>) {
    let mut callers: HashMap<TaskId, Vec<oneshot::Sender<_>>> = HashMap::new();
    let mut purposes = HashMap::new();
    for Request {
        asks: (task, purpose),
        reply,
    } in loads
    {
        callers.entry(task).or_default().push(reply);
        // Who runs it is the stricter one.
        let of = purposes.entry(task).or_insert(purpose);
        if purpose == LoadFor::Run {
            *of = purpose;
        }
    }
    let rows: Result<Vec<tasks::TaskRead>, Fault> = database
        .read(tasks::load(
            callers.keys().map(|task| task.0).collect(),
            LoadFor::Look,
        ))
        .await;
    let mut found = match rows {
        Ok(rows) => tasks::decode(rows, |task| {
            purposes.get(&task).copied().unwrap_or(LoadFor::Look)
        }),
        Err(fault) => {
            for reply in callers.into_values().flatten() {
                let _ = reply.send(failed(&fault));
            }
            return;
        }
    };
    for (task, mut replies) in callers {
        let Ok(record) = found.remove(&task).transpose() else {
            // What is damaged in it is the caller's own error.
            for reply in replies {
                let _ = reply.send(Reply::Alone);
            }
            continue;
        };
        let last = replies.pop();
        for reply in replies {
            let _ = reply.send(Reply::Answer(Ok(record.clone())));
        }
        if let Some(reply) = last {
            let _ = reply.send(Reply::Answer(Ok(record)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Batches;

    /// Bytes of the future that a call returns; the call is never made.
    fn bytes<F: Future>(_: impl FnOnce(&'static Batches) -> F) -> usize {
        size_of::<F>()
    }

    fn never<T>() -> T {
        unreachable!("no call is made")
    }

    /// Each is on the heap once a call of the store, whether it opens a connection or shares the statement of others.
    #[test]
    fn futures_of_the_calls_of_every_task_are_small() {
        let found = [
            ("commit", 5_120, bytes(|it| it.commit(never(), never()))),
            ("load", 4_096, bytes(|it| it.load(never(), never()))),
            (
                "heartbeat",
                3_840,
                bytes(|it| it.heartbeat(never(), never(), never())),
            ),
        ];
        for (what, _, bytes) in &found {
            println!("{what:>12} {bytes:>6} bytes");
        }
        let large: Vec<_> = found
            .iter()
            .filter(|(_, most, bytes)| bytes > most)
            .collect();
        assert!(large.is_empty(), "larger than their bounds: {large:?}");
    }
}
