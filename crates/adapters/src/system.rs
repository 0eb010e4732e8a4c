//! The ports that need nothing but this process: a timer, chance, and hints between its parts.
//!
//! Must not know calendars (that is the database's clock) nor carry anything that may not be lost.

use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{Clock, Random, Signal, Signals};
use counterstep_steps::runtime::Runtime;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::Instant;

/// Tokio's timer, so that a test that pauses Tokio's time pauses this one too.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Counts from now on.
    #[must_use]
    pub fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    fn unix_millis(&self) -> u64 {
        // A machine whose calendar is before 1970 still gets ids; they only sort badly.
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The operating system's chance, through a generator of each thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn bits(&self) -> u128 {
        rand::random()
    }
}

/// Tokio's timer and the operating system's chance, for policies outside of tasks.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioRuntime;

impl Runtime for TokioRuntime {
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn bits(&self) -> u128 {
        rand::random()
    }
}

/// How many hints a slow listener may be behind before it skips some.
const BACKLOG: usize = 1024;

/// Hints within one process. What other processes on the same database file are told, see
/// `file_signals`.
#[derive(Debug, Clone)]
pub struct LocalSignals {
    sender: broadcast::Sender<Signal>,
    cancels: Cancels,
}

/// The listeners to the cancels of each task. An entry stays for as long as it has one.
type Cancels = Arc<Mutex<HashMap<TaskId, Vec<Weak<Notify>>>>>;

/// One who listens to the cancels of a task.
struct Listening {
    task: TaskId,
    told: Arc<Notify>,
    cancels: Cancels,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut cancels = self.cancels.lock();
        if let Entry::Occupied(mut listeners) = cancels.entry(self.task) {
            listeners
                .get_mut()
                .retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(&self.told)));
            if listeners.get().is_empty() {
                listeners.remove();
            }
        }
    }
}

impl LocalSignals {
    /// Without listeners.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sender: broadcast::Sender::new(BACKLOG),
            cancels: Cancels::default(),
        }
    }

    /// Does not keep them alive: for a sender that ends with the last other clone.
    #[must_use]
    pub(crate) fn downgrade(&self) -> WeakLocalSignals {
        WeakLocalSignals {
            sender: self.sender.downgrade(),
            cancels: self.cancels.clone(),
        }
    }
}

/// [`LocalSignals`] that may be gone.
#[derive(Debug, Clone)]
pub(crate) struct WeakLocalSignals {
    sender: broadcast::WeakSender<Signal>,
    cancels: Cancels,
}

impl WeakLocalSignals {
    pub(crate) fn upgrade(&self) -> Option<LocalSignals> {
        Some(LocalSignals {
            sender: self.sender.upgrade()?,
            cancels: self.cancels.clone(),
        })
    }
}

impl Default for LocalSignals {
    fn default() -> Self {
        Self::new()
    }
}

impl Signals for LocalSignals {
    fn send(&self, signal: Signal) {
        // An error means that there is no listener, which is fine for a hint.
        let cancelled = if let Signal::CancelRequested(task) = &signal {
            Some(*task)
        } else {
            None
        };
        let _ = self.sender.send(signal);
        if let Some(task) = cancelled {
            let cancels = self.cancels.lock();
            for listener in cancels
                .get(&task)
                .into_iter()
                .flatten()
                .filter_map(Weak::upgrade)
            {
                // Kept for one who does not listen at this very moment.
                listener.notify_one();
            }
        }
    }

    fn cancels_of(&self, task: TaskId) -> BoxStream<'static, ()> {
        let told = Arc::new(Notify::new());
        let mut cancels = self.cancels.lock();
        cancels.entry(task).or_default().push(Arc::downgrade(&told));
        drop(cancels);
        let listening = Listening {
            task,
            told,
            cancels: self.cancels.clone(),
        };
        stream::unfold(listening, |listening| async move {
            listening.told.notified().await;
            Some(((), listening))
        })
        .boxed()
    }

    fn subscribe(&self) -> BoxStream<'static, Signal> {
        stream::unfold(self.sender.subscribe(), |mut receiver| async move {
            loop {
                match receiver.recv().await {
                    Ok(signal) => return Some((signal, receiver)),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        })
        .boxed()
    }
}
