//! Room for heavy steps: those that take a processor or much memory for themselves. A process runs
//! few of them side by side, whatever its number of tasks, and takes no task whose next step is
//! heavy while all of that room is taken.
//!
//! Must not hold up a light step.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// A task that was left is looked at again after this at the earliest, ...
const SOONEST: Duration = Duration::from_secs(1);

/// ... and those of a long line one after the other: so many looks a second, each of them a read.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A task is looked at again after this at the latest.
const LATEST: Duration = Duration::from_secs(60);

/// What a process has for heavy steps.
#[derive(Debug)]
pub(crate) struct Heavy {
    room: Arc<Semaphore>,
    /// Places in the line: as many as there is room, so that what gets free is taken at once.
    pub(crate) line: Arc<Semaphore>,
    /// When by this process's timer the next task that was left is looked at again.
    next_look: Mutex<Duration>,
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
            next_look: Mutex::default(),
            steps,
            abandoned,
            more_abandoned,
        }
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
        let mut next = self
            .next_look
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *next = (*next + BETWEEN_LOOKS).max(now + SOONEST).min(now + LATEST);
        next.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_without_room_are_looked_at_one_after_the_other() {
        let heavy = Heavy::new(1);
        let now = Duration::from_secs(100);
        assert_eq!(heavy.look_again(now), Duration::from_secs(1));
        assert_eq!(heavy.look_again(now), Duration::from_millis(1020));
        for _ in 0..10_000 {
            heavy.look_again(now);
        }
        assert_eq!(heavy.look_again(now), LATEST);
        assert_eq!(heavy.look_again(now + Duration::from_secs(3600)), SOONEST);
    }
}
