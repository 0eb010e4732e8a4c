//! Room for heavy steps: those that take a processor or much memory for themselves. A process runs
//! few of them side by side, whatever its number of tasks, and takes no task whose next step is
//! heavy while all of that room is taken.
//!
//! Must not hold up a light step.

use crate::waiting_looks::Looks;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// What a process has for heavy steps.
#[derive(Debug)]
pub(crate) struct Heavy {
    room: Arc<Semaphore>,
    /// Places in the line: as many as there is room, so that what gets free is taken at once.
    pub(crate) line: Arc<Semaphore>,
    /// When the next task that was left is looked at again.
    looks: Mutex<Looks>,
    steps: usize,
    /// Rooms in abandoned code, which may hold them as long as the process lives.
    abandoned: AtomicUsize,
    more_abandoned: Notify,
}

/// Room that went into a step's code.
#[derive(Debug)]
pub(crate) struct RoomInCode {
    heavy: Arc<Heavy>,
    abandoned: AtomicBool,
    _permit: OwnedSemaphorePermit,
}

impl RoomInCode {
    pub(crate) fn new(heavy: &Arc<Heavy>, permit: OwnedSemaphorePermit) -> Arc<Self> {
        Arc::new(Self {
            heavy: heavy.clone(),
            abandoned: AtomicBool::new(false),
            _permit: permit,
        })
    }

    /// Nothing waits for the code any more, and the room is still inside it.
    pub(crate) fn abandon(&self) {
        if !self.abandoned.swap(true, Ordering::SeqCst) {
            self.heavy.abandoned.fetch_add(1, Ordering::SeqCst);
            self.heavy.more_abandoned.notify_waiters();
        }
    }
}

impl Drop for RoomInCode {
    fn drop(&mut self) {
        if *self.abandoned.get_mut() {
            self.heavy.abandoned.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Heavy {
    /// For so many steps side by side.
    pub(crate) fn new(steps: usize) -> Self {
        let steps = steps.max(1);
        let room = || Arc::new(Semaphore::new(steps));
        let (abandoned, more_abandoned) = (AtomicUsize::new(0), Notify::new());
        Self {
            room: room(),
            line: room(),
            looks: Mutex::default(),
            steps,
            abandoned,
            more_abandoned,
        }
    }

    /// So many run side by side.
    pub(crate) const fn steps(&self) -> usize {
        self.steps
    }

    /// So many do now.
    pub(crate) fn taken(&self) -> usize {
        self.steps.saturating_sub(self.room.available_permits())
    }

    /// Whether all of the room is in abandoned code, so that waiting for it may take as long as the
    /// process lives.
    pub(crate) fn is_stuck(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst) >= self.steps
    }

    /// Waits until all of the room is in abandoned code.
    pub(crate) async fn stuck(&self) {
        loop {
            // Before the look: what is abandoned after it ends this wait.
            let more = self.more_abandoned.notified();
            if self.is_stuck() {
                return;
            }
            more.await;
        }
    }

    /// Waits for room, for as long as it takes.
    pub(crate) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        self.room.clone().acquire_owned().await.ok()
    }

    /// Room that is free now.
    pub(crate) fn free_room(&self) -> Option<OwnedSemaphorePermit> {
        self.room.clone().try_acquire_owned().ok()
    }

    /// When to look again at a task for which there was none.
    pub(crate) fn look_again(&self, now: Duration) -> Duration {
        let mut looks = self.looks.lock();
        looks.next(now)
    }
}
