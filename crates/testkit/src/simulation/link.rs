//! A start of a process and its way to everything that it shares with others: closed for good when it is killed.

use super::choice::Choice;
use super::executor::Bag;
use super::faults::Trouble;
use super::world::World;
use counterstep_contracts::{ChangeId, TaskId};
use counterstep_kernel::change::transition::Transition;
use counterstep_kernel::ports::{Clock, Random, Storage};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// A start of a process.
pub(super) struct Link {
    pub(super) world: Arc<World>,
    /// As `worker 1`, without the number of the start.
    pub(super) process: String,
    pub(super) start: u32,
    pub(super) bag: Bag,
    /// Its connection to the database.
    pub(super) storage: Arc<dyn Storage>,
    /// Changes whose answer it has lost, by their tasks.
    unknown: Mutex<BTreeMap<TaskId, ChangeId>>,
    is_closed: AtomicBool,
    calls: Mutex<BTreeMap<&'static str, u32>>,
    /// Tasks that it has looked at.
    seen: Mutex<BTreeSet<TaskId>>,
    random: Mutex<Choice>,
    /// Since when it runs, by the world's time: it was started then, or was paused until then.
    runs_since: Mutex<Duration>,
    /// Its timer runs faster or slower than that of the world: of 1,000.
    rate: u32,
    /// Its calendar is ahead of that of the world by this, or behind.
    ahead: i64,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (start {})", self.process, self.start)
    }
}

impl Link {
    pub(super) fn new(world: &Arc<World>, process: &str, start: u32) -> Self {
        let mut choice = Choice::of(world.seed, &format!("{process} {start}"));
        let drifts = world.options.clocks_drift;
        Self {
            world: world.clone(),
            process: process.to_owned(),
            start,
            bag: world.tasks.bag(),
            storage: world.connect(),
            unknown: Mutex::default(),
            is_closed: AtomicBool::new(false),
            runs_since: Mutex::new(world.now()),
            calls: Mutex::default(),
            seen: Mutex::default(),
            rate: match drifts {
                true => u32::try_from(choice.within(900, 1100)).unwrap_or(1000),
                false => 1000,
            },
            ahead: match drifts {
                true => i64::try_from(choice.below(1_200_000)).unwrap_or_default() - 600_000,
                false => 0,
            },
            random: Mutex::new(choice),
        }
    }

    /// Nothing that it does from now on reaches others.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    pub(super) fn runs_since(&self) -> Duration {
        *self.runs_since.lock()
    }

    /// The answer to its change is lost.
    pub(super) fn knows_nothing_of(&self, change: &Transition) {
        let mut unknown = self.unknown.lock();
        unknown.insert(change.task_id, change.change_id);
    }

    /// It has read a task: what it finds of a change whose answer was lost.
    pub(super) fn has_read(&self, task: TaskId) {
        if let Some(change) = self.unknown.lock().remove(&task) {
            let watch = &self.world.watch;
            watch.reached(watch.found(task, change));
        }
    }

    /// It was paused until now.
    pub(super) fn goes_on(&self) {
        *self.runs_since.lock() = self.world.now();
    }

    /// Whether its timer is that of the world.
    pub(super) fn is_in_time(&self) -> bool {
        self.rate == 1000
    }

    /// A fault has struck it, and it is still there to notice.
    pub(super) fn feels(&self, trouble: Trouble) {
        if !self.is_closed() {
            self.world.watch.felt(trouble);
        }
    }

    /// It reads or changes a task.
    pub(super) fn looks_at(&self, task: TaskId) {
        self.seen.lock().insert(task);
    }

    /// 14: a delivery is settled for good behind the turn that it leads to.
    pub(super) fn settles(&self, task: TaskId) {
        if !self.seen.lock().contains(&task) {
            let process = &self.process;
            self.world.watch.fails(format!(
                "14: {process} has settled a message of task {task} before it has looked at the task"
            ));
        }
    }

    /// Notes an event of this process.
    pub(super) fn note(&self, what: impl std::hash::Hash, line: impl FnOnce() -> String) {
        let (world, process) = (&self.world, &self.process);
        world.trace.note(world.now(), (process, what), || {
            format!("{process:14} {}", line())
        });
    }

    /// Whether something goes wrong with its next call of this kind. Once it is killed the call never ends: its tasks are dropped.
    pub(super) async fn next(
        &self,
        kind: &'static str,
        troubles: &[Trouble],
    ) -> Option<(Trouble, Choice)> {
        if self.is_closed() {
            return std::future::pending().await;
        }
        self.struck(kind, troubles)
    }

    /// The same of what does not wait.
    pub(super) fn struck(
        &self,
        kind: &'static str,
        troubles: &[Trouble],
    ) -> Option<(Trouble, Choice)> {
        let number = {
            let mut calls = self.calls.lock();
            let number = calls.entry(kind).or_default();
            *number += 1;
            *number
        };
        let world = &self.world;
        if world.is_healed() || !troubles.iter().any(|it| world.faults.rate(*it) > 0) {
            return None;
        }
        let place = format!("{} start {} {kind} {number}", self.process, self.start);
        let struck = world.faults.strike(world.now(), &place, troubles);
        if let Some((trouble, _)) = &struck {
            self.note((kind, *trouble), || format!("{kind}: {trouble:?}  (fault)"));
        }
        struck
    }

    /// Waits up to this long, in milliseconds, by the seed.
    pub(super) async fn waits(&self, choice: &mut Choice, from: u64, to: u64) {
        sleep(Duration::from_millis(choice.within(from, to))).await;
        if self.is_closed() {
            std::future::pending().await
        }
    }
}

/// The timer and the calendar of a process.
#[derive(Debug, Clone)]
pub(super) struct SimClock(pub(super) Arc<Link>);

impl Clock for SimClock {
    fn monotonic(&self) -> Duration {
        self.0.world.machine.timer() * self.0.rate / 1000
    }

    fn unix_millis(&self) -> u64 {
        let world = self.0.world.calendar().as_millis();
        let shown = i64::try_from(world).unwrap_or(i64::MAX) + self.0.ahead;
        u64::try_from(shown).unwrap_or_default()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        // Tokio's wheel has an end.
        let longest = Duration::from_secs(1 << 28);
        let duration = duration.min(longest) * 1000 / self.0.rate;
        let link = self.0.clone();
        Box::pin(async move {
            let machine = &link.world.machine;
            let until = machine.timer() + duration;
            sleep(duration).await;
            // A suspension does not count.
            while let Some(left) = until
                .checked_sub(machine.timer())
                .filter(|it| !it.is_zero())
            {
                sleep(left).await;
            }
        })
    }
}

/// The chance of a process.
#[derive(Debug, Clone)]
pub(super) struct SimRandom(pub(super) Arc<Link>);

impl Random for SimRandom {
    fn bits(&self) -> u128 {
        let mut random = self.0.random.lock();
        u128::from(random.draw()) << 64 | u128::from(random.draw())
    }
}
