//! The tasks that streams of this process follow: who is told of a change, and the look at what other
//! processes have changed. Must not read a journal.

use super::feed::{Feeds, Joined, Looks};
use super::tail::Tail;
use crate::shares::{Share, Shares};
use counterstep_contracts::{ProblemCode, TaskId, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::ports::{RevisionsOf, Signal, Store};
use counterstep_operations::{Caller, Refused};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

/// Maximum number of tasks of one query.
const CHUNK: usize = 1000;

/// `Retry-After` in seconds where a process has no room for one more stream.
const AGAIN: u32 = 10;

/// All streams of a process.
#[derive(Debug)]
pub(crate) struct Events {
    tasks: Arc<FollowedTasks>,
    room: Arc<Semaphore>,
    most: usize,
    shares: Arc<Shares>,
    feeds: Arc<Feeds>,
    looks: Looks,
    polling: JoinHandle<()>,
}

/// A place among the streams of a process, and of a caller; free again when it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    _permit: OwnedSemaphorePermit,
    _share: Share,
}

/// The tasks that are followed. A task is in it for as long as a stream follows it.
#[derive(Debug, Default)]
pub(crate) struct FollowedTasks {
    tails: Mutex<HashMap<TaskId, Weak<Tail>>>,
    /// There is one again.
    any: Notify,
}

/// One stream's share in a task's tail, and its place among the streams.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) task: TaskId,
    pub(super) tail: Arc<Tail>,
    tasks: Arc<FollowedTasks>,
    _room: Room,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.polling.abort();
        self.feeds.stop();
    }
}

impl Events {
    /// Looks for changes from now on, on the runtime of the caller: after each `every`. `most`: maximum
    /// streams in all; `most_of_a_caller`: of one caller.
    pub(crate) fn start(
        engine: &Engine,
        most: usize,
        most_of_a_caller: usize,
        every: Duration,
    ) -> Self {
        let (store, tasks) = (engine.ports.store.clone(), Arc::<FollowedTasks>::default());
        let most = most.min(Semaphore::MAX_PERMITS);
        Self {
            room: Arc::new(Semaphore::new(most)),
            most,
            shares: Shares::of(most_of_a_caller),
            polling: tokio::spawn(poll(store, tasks.clone(), every)),
            tasks,
            feeds: Arc::default(),
            looks: Looks {
                engine: engine.clone(),
                every,
                runtime: Handle::current(),
            },
        }
    }

    pub(crate) const fn tasks(&self) -> &Arc<FollowedTasks> {
        &self.tasks
    }

    /// A share in the changes of a tenant's tasks.
    pub(super) fn join(&self, tenant: &Tenant) -> Joined {
        self.feeds.join(tenant, &self.looks)
    }

    /// A place among the streams.
    pub(super) fn room(&self, caller: &Caller) -> Result<Room, Refused> {
        let permit = self.room.clone().try_acquire_owned();
        let permit = permit.map_err(|_| {
            let detail = format!(
                "this process has {} streams open and takes no more: come again later, or ask with ?wait=",
                self.most
            );
            Refused::new(ProblemCode::TooManyStreams, detail).retry_after(AGAIN)
        })?;
        let share = self.shares.take(caller).ok_or_else(|| {
            let detail = format!(
                "the caller has {} streams open and may have no more: close one, or follow many tasks with \
                 /api/events",
                self.shares.most
            );
            Refused::new(ProblemCode::TooManyRequests, detail).retry_after(AGAIN)
        })?;
        Ok(Room {
            _permit: permit,
            _share: share,
        })
    }

    /// A share in the tail of a task, for a stream.
    pub(super) fn follow(&self, caller: &Caller, task: TaskId) -> Result<Following, Refused> {
        let room = self.room(caller)?;
        let mut tails = self.tasks.lock();
        let tail = tails.get(&task).and_then(Weak::upgrade);
        let tail = tail.unwrap_or_else(|| {
            let tail = Arc::new(Tail::of(task));
            tails.insert(task, Arc::downgrade(&tail));
            tail
        });
        drop(tails);
        self.tasks.any.notify_one();
        Ok(Following {
            task,
            tail,
            tasks: self.tasks.clone(),
            _room: room,
        })
    }
}

impl FollowedTasks {
    /// Passes a signal on to those who follow its task.
    pub(crate) fn hear(&self, signal: &Signal) {
        match signal {
            Signal::Changed(task) | Signal::Rests(task) => {
                if let Some(tail) = self.tail(*task) {
                    tail.changed();
                }
            }
            Signal::Progress(progress) => {
                if let Some(tail) = self.tail(progress.task) {
                    tail.said(progress);
                }
            }
            // The change that accepted it is announced as well.
            Signal::CancelRequested(_) => {}
        }
    }

    fn tail(&self, task: TaskId) -> Option<Arc<Tail>> {
        self.lock().get(&task).and_then(Weak::upgrade)
    }

    /// Those that are followed now.
    fn all(&self) -> Vec<TaskId> {
        let mut tails = self.lock();
        tails.retain(|_, tail| tail.strong_count() > 0);
        tails.keys().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Weak<Tail>>> {
        self.tails.lock()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut tails = self.tasks.lock();
        // Under the lock, under which a new stream gets its share: the last one is the last one.
        if Arc::strong_count(&self.tail) == 1 {
            tails.remove(&self.task);
        }
    }
}

/// Compares the revisions of all tasks that are followed with those that were read.
async fn poll(store: Store, tasks: Arc<FollowedTasks>, every: Duration) {
    loop {
        let followed = tasks.all();
        if followed.is_empty() {
            tasks.any.notified().await;
        }
        for chunk in followed.chunks(CHUNK) {
            match store.revisions(&RevisionsOf::Tasks(chunk.to_vec())).await {
                Ok(found) => {
                    let found = found.tasks.into_iter().map(|found| (found.task, found.rev));
                    let found: HashMap<_, _> = found.collect();
                    for task in chunk {
                        if let Some(tail) = tasks.tail(*task) {
                            tail.is_at(found.get(task).copied());
                        }
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "looking for changes of followed tasks failed");
                }
            }
        }
        tokio::time::sleep(every).await;
    }
}
