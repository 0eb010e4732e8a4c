//! Many tasks on one thread, of which the seed picks the next. Tasks belong to a bag, that is a start of a process: a bag that is
//! paused is not polled, and one that is dropped is gone in the middle of whatever it did.
//!
//! It runs as the one future of a current-thread Tokio runtime whose time is paused, so that Tokio's timers tell the time. Must
//! not know what a task does.

use super::choice::Choice;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// Names a bag. Never used twice in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bag(u32);

/// Starts tasks, and pauses and drops bags. Clones are of one run.
#[derive(Clone, Default)]
pub(super) struct Tasks(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    root: AtomicWaker,
}

#[derive(Default)]
struct State {
    bags: u32,
    tasks: u64,
    /// Started, and not polled yet.
    started: Vec<(Bag, u64, BoxFuture<'static, ()>)>,
    /// What can go on, in the order in which it was woken.
    ready: Vec<(Bag, u64)>,
    is_ready: BTreeSet<(Bag, u64)>,
    paused: BTreeSet<Bag>,
    dropped: Vec<Bag>,
    gone: BTreeSet<Bag>,
}

/// How the next task is picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The one that was woken first.
    First,
    /// Any.
    Any,
    /// That of the bag with the highest priority; priorities change now and then.
    Priorities,
}

impl Tasks {
    /// A new bag.
    pub(super) fn bag(&self) -> Bag {
        let mut state = self.0.state.lock();
        state.bags += 1;
        Bag(state.bags)
    }

    /// Starts a task in a bag.
    pub(super) fn start(&self, bag: Bag, task: BoxFuture<'static, ()>) {
        let mut state = self.0.state.lock();
        // What a task starts as it is dropped.
        if state.gone.contains(&bag) {
            return;
        }
        state.tasks += 1;
        let number = state.tasks;
        state.started.push((bag, number, task));
        state.wake(bag, number);
        drop(state);
        self.0.root.wake();
    }

    /// Does not poll it until [`resume`](Self::resume). Its timers go on.
    pub(super) fn pause(&self, bag: Bag) {
        self.0.state.lock().paused.insert(bag);
    }

    pub(super) fn is_paused(&self, bag: Bag) -> bool {
        self.0.state.lock().paused.contains(&bag)
    }

    /// Polls it again.
    pub(super) fn resume(&self, bag: Bag) {
        self.0.state.lock().paused.remove(&bag);
        self.0.root.wake();
    }

    /// Drops all its tasks where they stand, as soon as the one that runs has given way.
    pub(super) fn drop_all(&self, bag: Bag) {
        let mut state = self.0.state.lock();
        state.dropped.push(bag);
        state.gone.insert(bag);
        drop(state);
        self.0.root.wake();
    }
}

impl State {
    fn wake(&mut self, bag: Bag, task: u64) {
        if self.is_ready.insert((bag, task)) {
            self.ready.push((bag, task));
        }
    }
}

struct Woken {
    shared: Arc<Shared>,
    bag: Bag,
    task: u64,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.shared.state.lock().wake(self.bag, self.task);
        self.shared.root.wake();
    }
}

/// Polls that a run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManyPolls;

struct Running {
    task: BoxFuture<'static, ()>,
    waker: Waker,
}

/// Runs the tasks until `until` ends, which is a task of the world: it is never paused. Gives the number of polls.
pub(super) async fn run<T>(
    tasks: &Tasks,
    order: Order,
    mut choice: Choice,
    most_polls: u64,
    until: impl Future<Output = T>,
) -> (Result<T, TooManyPolls>, u64) {
    let mut running: BTreeMap<(Bag, u64), Running> = BTreeMap::new();
    let mut priorities: BTreeMap<Bag, u64> = BTreeMap::new();
    let mut until = std::pin::pin!(until);
    let mut polls = 0;
    let ended = poll_fn(|context| {
        tasks.0.root.register(context.waker());
        loop {
            if let Poll::Ready(ended) = until.as_mut().poll(context) {
                return Poll::Ready(Ok(ended));
            }
            let dropped = {
                let mut state = tasks.0.state.lock();
                for (bag, number, task) in std::mem::take(&mut state.started) {
                    let woken = Woken {
                        shared: tasks.0.clone(),
                        bag,
                        task: number,
                    };
                    let waker = Arc::new(woken).into();
                    running.insert((bag, number), Running { task, waker });
                }
                std::mem::take(&mut state.dropped)
            };
            for bag in dropped {
                // Behind the lock: what is dropped may wake others.
                let gone: Vec<_> = running
                    .range((bag, 0)..=(bag, u64::MAX))
                    .map(|(key, _)| *key)
                    .collect();
                for key in gone {
                    drop(running.remove(&key));
                }
            }
            let Some(key) = tasks.next(order, &mut choice, &mut priorities) else {
                return Poll::Pending;
            };
            let Some(Running { task, waker }) = running.get_mut(&key) else {
                continue;
            };
            polls += 1;
            if polls > most_polls {
                return Poll::Ready(Err(TooManyPolls));
            }
            if task
                .as_mut()
                .poll(&mut Context::from_waker(waker))
                .is_ready()
            {
                running.remove(&key);
            }
            // What Tokio runs beside, that is the database's own tasks, has its turn among ours.
            if choice.chance(500) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    })
    .await;
    (ended, polls)
}

impl Tasks {
    fn next(
        &self,
        order: Order,
        choice: &mut Choice,
        priorities: &mut BTreeMap<Bag, u64>,
    ) -> Option<(Bag, u64)> {
        let mut state = self.0.state.lock();
        let State {
            ready,
            paused,
            is_ready,
            ..
        } = &mut *state;
        let free: Vec<usize> = (0..ready.len())
            .filter(|at| !paused.contains(&ready[*at].0))
            .collect();
        let first = *free.first()?;
        let at = match order {
            Order::First => first,
            Order::Any => *choice.one_of(&free),
            Order::Priorities => {
                if choice.chance(20) {
                    priorities.clear();
                }
                let of = |at: &usize| {
                    let bag = ready[*at].0;
                    *priorities.entry(bag).or_insert_with(|| choice.draw())
                };
                free.iter().copied().max_by_key(of).unwrap_or(first)
            }
        };
        let key = ready.remove(at);
        is_ready.remove(&key);
        Some(key)
    }
}
