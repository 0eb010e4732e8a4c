//! Commits and loads of many tasks in one statement each, under load. What one caller gets is what it would have got
//! alone; it only shares the way. Must not decide anything about a task.

use super::commit::{self, Kind};
use super::fault::{Care, Fault};
use super::options::PostgresOptions;
use super::pool::Database;
use super::tasks;
use crate::gate::{Carry, Gate, Pass};
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{CommitError, Committed, Salvaged, StoreError};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::transition::{Guard, Transition};
use futures::FutureExt;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// Statements of a kind under way at a time, at most.
const WIDTH: usize = 3;

/// So many changes, or tasks, are worth a statement beside the one under way.
const FULL: usize = 64;

/// As many as one statement carries.
const MOST: usize = 128;

/// Whoever has waited for so long does not wait for the statement under way any longer: it may hang at a lock.
const LONG: Duration = Duration::from_millis(50);

/// For so long a change waits for a lock while others wait for it: those of its statement, and those in the line.
const BRIEFLY: Duration = Duration::from_millis(100);

/// What becomes of one of many.
enum Told<T> {
    /// This.
    So(T),
    /// Nothing: it should go alone.
    Alone,
}

/// Somebody in a line.
struct Waiting<Q, A> {
    number: u64,
    asks: Q,
    tell: oneshot::Sender<Told<A>>,
}

struct Change {
    kind: Kind,
    guard: Guard,
    transition: Transition,
}

type Write = Waiting<Change, Result<Committed, CommitError>>;
type Look = Waiting<TaskId, Result<Option<TaskRecord>, StoreError>>;

/// The gates of one store. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Together {
    database: Database,
    writes: Gate<Write>,
    looks: Gate<Look>,
    numbers: Arc<AtomicU64>,
    wait: Duration,
    briefly: Duration,
    patiently: Duration,
    /// Places for those who wait for a lock alone. Each has a connection meanwhile, and the others need some, too.
    patient: Arc<Semaphore>,
}

impl Together {
    pub(super) fn new(database: Database, options: &PostgresOptions) -> Self {
        let (to_write, to_look) = (database.clone(), database.clone());
        let briefly = BRIEFLY.min(options.lock_timeout);
        let write: Carry<Write> = Box::new(move |writes| write_all(to_write.clone(), writes, briefly).boxed());
        let look: Carry<Look> = Box::new(move |looks| look_at_all(to_look.clone(), looks).boxed());
        Self {
            writes: Gate::new(WIDTH, FULL, pick_writes, write),
            looks: Gate::new(WIDTH, FULL, pick_looks, look),
            numbers: Arc::default(),
            wait: options.wait,
            briefly,
            patiently: options.lock_timeout,
            patient: Arc::new(Semaphore::new((database.connections() / 2).max(1))),
            database,
        }
    }

    pub(super) async fn commit(&self, guard: Guard, transition: &Transition) -> Result<Committed, CommitError> {
        let Some(kind) = commit::kind(guard, transition) else {
            return self.commit_alone(guard, transition, None).await;
        };
        let (tell, told) = oneshot::channel();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let asks = || Change { kind, guard, transition: transition.clone() };
        let told = match self.writes.enter(|| Waiting { number, asks: asks(), tell }) {
            Some(pass) => return self.commit_alone(guard, transition, Some(pass)).await,
            None => self.told(&self.writes, number, told).await,
        };
        match told.map_err(CommitError::Store)? {
            Told::So(result) => result,
            Told::Alone => self.commit_alone(guard, transition, None).await,
        }
    }

    /// With a pass as long as that is brief; a change that meets a lock waits outside the line.
    async fn commit_alone(
        &self,
        guard: Guard,
        transition: &Transition,
        pass: Option<Pass<Write>>,
    ) -> Result<Committed, CommitError> {
        if !commit::has_statements(transition) {
            let written = self.write_alone(guard, transition, self.briefly).await;
            drop(pass);
            if !matches!(written, Err(Fault::Locked(_))) {
                return Ok(written?);
            }
        }
        let place = tokio::time::timeout(self.wait, self.patient.acquire()).await.map_err(|_| {
            StoreError::Unavailable(format!("no place to wait for a lock within {:?}: too many changes do", self.wait))
        })?;
        let written = self.write_alone(guard, transition, self.patiently).await;
        drop(place);
        Ok(written?)
    }

    async fn write_alone(&self, guard: Guard, transition: &Transition, lock: Duration) -> Result<Committed, Fault> {
        let lent = self.database.lend().await?;
        let written = commit::write(&lent, guard, transition, lock).await;
        lent.settle(written)
    }

    pub(super) async fn load(&self, task: TaskId) -> Result<Option<TaskRecord>, StoreError> {
        let (tell, told) = oneshot::channel();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let told = match self.looks.enter(|| Waiting { number, asks: task, tell }) {
            Some(_pass) => return self.load_alone(task).await,
            None => self.told(&self.looks, number, told).await,
        };
        match told? {
            Told::So(result) => result,
            Told::Alone => self.load_alone(task).await,
        }
    }

    async fn load_alone(&self, task: TaskId) -> Result<Option<TaskRecord>, StoreError> {
        let rows: Vec<tasks::Read> = self.database.read(tasks::load(vec![task.0])).await?;
        Ok(tasks::decode(rows, &mut Care::Strict).remove(&task).transpose()?)
    }

    /// One that cannot be read as it should.
    pub(super) async fn salvage(&self, task: TaskId) -> Result<Option<Salvaged>, StoreError> {
        let rows: Vec<tasks::Read> = self.database.read(tasks::load(vec![task.0])).await?;
        let mut care = Care::Salvage(Vec::new());
        let record = tasks::decode(rows, &mut care).remove(&task).transpose()?;
        Ok(record.map(|record| Salvaged { record, unreadable: care.noted() }))
    }

    /// What the line has come to. Nobody waits in it for ever, and whoever goes away leaves it.
    async fn told<Q: Send + 'static, A: Send + 'static>(
        &self,
        gate: &Gate<Waiting<Q, A>>,
        number: u64,
        mut told: oneshot::Receiver<Told<A>>,
    ) -> Result<Told<A>, StoreError> {
        let place = gate.place(move |waiting| waiting.number == number);
        if let Ok(answer) = tokio::time::timeout(LONG, &mut told).await {
            return answer.map_err(|_| stops());
        }
        gate.hurry();
        let answer = match tokio::time::timeout(self.wait, &mut told).await {
            Ok(answer) => answer,
            Err(_) if place.leave() => {
                let text = format!("no turn at the database within {:?}: it is slow, or away", self.wait);
                return Err(StoreError::Unavailable(text));
            }
            Err(_) => told.await,
        };
        answer.map_err(|_| stops())
    }
}

/// Whoever carried it is gone, and did not say how far it got.
fn stops() -> StoreError {
    StoreError::Unknown("the process stops".to_owned())
}

/// The changes that may share a statement with the first one: of one kind, and no two of one task. In the order of their
/// tasks, so that two statements never wait for each other.
fn pick_writes(line: &mut VecDeque<Write>) -> Vec<Write> {
    let Some(kind) = line.front().map(|first| first.asks.kind) else { return Vec::new() };
    let mut seen = HashSet::new();
    let (mut picked, mut left) = (Vec::new(), VecDeque::new());
    for write in line.drain(..) {
        let fits = picked.len() < MOST && write.asks.kind == kind && seen.insert(write.asks.transition.task_id);
        if fits { picked.push(write) } else { left.push_back(write) }
    }
    *line = left;
    picked.sort_unstable_by_key(|write| write.asks.transition.task_id);
    picked
}

fn pick_looks(line: &mut VecDeque<Look>) -> Vec<Look> {
    line.drain(..line.len().min(MOST)).collect()
}

async fn write_all(database: Database, writes: Vec<Write>, lock: Duration) {
    let written = async {
        let lent = database.lend().await?;
        let changes: Vec<_> = writes.iter().map(|write| (write.asks.guard, &write.asks.transition)).collect();
        let written = commit::write_all(&lent, &changes, lock).await;
        lent.settle(written)
    };
    let result: Result<Vec<Option<Committed>>, StoreError> = written.await.map_err(StoreError::from);
    for (at, Waiting { tell, .. }) in writes.into_iter().enumerate() {
        // Nobody may be waiting any more.
        let _ = tell.send(match &result {
            Ok(written) => written.get(at).copied().flatten().map_or(Told::Alone, |committed| Told::So(Ok(committed))),
            Err(error) => Told::So(Err(CommitError::Store(error.clone()))),
        });
    }
}

async fn look_at_all(database: Database, looks: Vec<Look>) {
    let ids = looks.iter().map(|look| look.asks.0).collect::<HashSet<_>>().into_iter().collect();
    let rows: Result<Vec<tasks::Read>, Fault> = database.read(tasks::load(ids)).await;
    let mut found = match rows {
        Ok(rows) => tasks::decode(rows, &mut Care::Strict),
        Err(Fault::Unavailable(text) | Fault::Locked(text)) => {
            for Waiting { tell, .. } in looks {
                let _ = tell.send(Told::So(Err(StoreError::Unavailable(text.clone()))));
            }
            return;
        }
        Err(_) => {
            for Waiting { tell, .. } in looks {
                let _ = tell.send(Told::Alone);
            }
            return;
        }
    };
    let mut counts: HashMap<TaskId, usize> = HashMap::new();
    for look in &looks {
        *counts.entry(look.asks).or_default() += 1;
    }
    for Waiting { asks, tell, .. } in looks {
        let last = counts.get_mut(&asks).is_none_or(|count| {
            *count -= 1;
            *count == 0
        });
        let told = match found.get(&asks) {
            None => Told::So(Ok(None)),
            // Whoever it concerns hears it in its own words.
            Some(Err(_)) => Told::Alone,
            Some(Ok(record)) if !last => Told::So(Ok(Some(record.clone()))),
            Some(Ok(_)) => match found.remove(&asks) {
                Some(Ok(record)) => Told::So(Ok(Some(record))),
                _ => Told::Alone,
            },
        };
        let _ = tell.send(told);
    }
}
