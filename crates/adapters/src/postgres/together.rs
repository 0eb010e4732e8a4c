//! Commits and loads of many tasks in one statement each, under load. What one caller gets is what it would have got
//! alone; it only shares the way. Must not decide anything about a task.

use super::commit::{self, Kind};
use super::fault::{Care, Fault};
use super::gate::{Carry, Gate};
use super::pool::Database;
use super::tasks;
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{CommitError, Committed, Salvaged, StoreError};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::transition::{Guard, Transition};
use futures::FutureExt;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// Statements of a kind under way at a time, at most.
const WIDTH: usize = 3;

/// So many changes, or tasks, are worth a statement beside the one under way.
const FULL: usize = 64;

/// As many as one statement carries.
const MOST: usize = 128;

/// Whoever has waited for so long does not wait for the statement under way any longer: it may hang at a lock.
const LONG: Duration = Duration::from_millis(50);

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
}

impl Together {
    pub(super) fn new(database: Database, wait: Duration) -> Self {
        let (to_write, to_look) = (database.clone(), database.clone());
        let write: Carry<Write> = Box::new(move |writes| write_all(to_write.clone(), writes).boxed());
        let look: Carry<Look> = Box::new(move |looks| look_at_all(to_look.clone(), looks).boxed());
        Self {
            database,
            writes: Gate::new(WIDTH, FULL, pick_writes, write),
            looks: Gate::new(WIDTH, FULL, pick_looks, look),
            numbers: Arc::default(),
            wait,
        }
    }

    pub(super) async fn commit(&self, guard: Guard, transition: &Transition) -> Result<Committed, CommitError> {
        let Some(kind) = commit::kind(guard, transition) else { return self.commit_alone(guard, transition).await };
        let (tell, told) = oneshot::channel();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let asks = || Change { kind, guard, transition: transition.clone() };
        let told = match self.writes.enter(|| Waiting { number, asks: asks(), tell }) {
            Some(_pass) => return self.commit_alone(guard, transition).await,
            None => self.told(&self.writes, number, told).await,
        };
        match told.map_err(CommitError::Store)? {
            Told::So(result) => result,
            Told::Alone => self.commit_alone(guard, transition).await,
        }
    }

    async fn commit_alone(&self, guard: Guard, transition: &Transition) -> Result<Committed, CommitError> {
        let lent = self.database.lend().await?;
        let written = commit::write(&lent, guard, transition).await;
        Ok(lent.settle(written)?)
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
        let place = Place { gate, number };
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

/// A place in a line, given up with this value.
struct Place<'a, Q: Send + 'static, A: Send + 'static> {
    gate: &'a Gate<Waiting<Q, A>>,
    number: u64,
}

impl<Q: Send + 'static, A: Send + 'static> Place<'_, Q, A> {
    fn leave(&self) -> bool {
        self.gate.leave(|waiting| waiting.number == self.number)
    }
}

impl<Q: Send + 'static, A: Send + 'static> Drop for Place<'_, Q, A> {
    fn drop(&mut self) {
        self.leave();
    }
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

async fn write_all(database: Database, writes: Vec<Write>) {
    let written = async {
        let lent = database.lend().await?;
        let changes: Vec<_> = writes.iter().map(|write| (write.asks.guard, &write.asks.transition)).collect();
        let written = commit::write_all(&lent, &changes).await;
        lent.settle(written)
    };
    let result: Result<Option<Committed>, StoreError> = written.await.map_err(StoreError::from);
    for Waiting { tell, .. } in writes {
        // Nobody may be waiting any more.
        let _ = tell.send(match &result {
            Ok(Some(committed)) => Told::So(Ok(*committed)),
            Ok(None) => Told::Alone,
            Err(error) => Told::So(Err(CommitError::Store(error.clone()))),
        });
    }
}

async fn look_at_all(database: Database, looks: Vec<Look>) {
    let ids = looks.iter().map(|look| look.asks.0).collect::<HashSet<_>>().into_iter().collect();
    let rows: Result<Vec<tasks::Read>, Fault> = database.read(tasks::load(ids)).await;
    let mut found = match rows {
        Ok(rows) => tasks::decode(rows, &mut Care::Strict),
        Err(Fault::Unavailable(text)) => {
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
