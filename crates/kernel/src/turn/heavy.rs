//! Room for heavy steps: those that take a processor or much memory for themselves. A process runs
//! few of them side by side, whatever its number of tasks, and takes no task whose next step is
//! heavy while all of that room is taken.
//!
//! Must not hold up a light step.

use super::lock::LOOK_AGAIN;
use crate::cancel::CancelToken;
use crate::engine::Engine;
use crate::plan::{self, Forward};
use crate::record::TaskRecord;
use crate::task::TaskType;
use counterstep_contracts::TaskStatus;
use futures::future::{Either, select};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// So long a task stands in line for room, with a slot but without a lease, before it is left to
/// other hosts.
const IN_LINE_FOR: Duration = Duration::from_secs(5);

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
    line: Arc<Semaphore>,
    /// When by this process's timer the next task that was left is looked at again.
    next_look: Mutex<Duration>,
    steps: usize,
    /// Rooms in abandoned code, which may hold them as long as the process lives.
    abandoned: AtomicUsize,
    more_abandoned: Notify,
}

/// Room that went into a step's code.
#[derive(Debug)]
pub(super) struct RoomInCode {
    heavy: Arc<Heavy>,
    abandoned: AtomicBool,
    _permit: OwnedSemaphorePermit,
}

impl RoomInCode {
    pub(super) fn new(heavy: &Arc<Heavy>, permit: OwnedSemaphorePermit) -> Arc<Self> {
        Arc::new(Self {
            heavy: heavy.clone(),
            abandoned: AtomicBool::new(false),
            _permit: permit,
        })
    }

    /// Nothing waits for the code any more, and the room is still inside it.
    pub(super) fn abandon(&self) {
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
    pub(super) fn is_stuck(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst) >= self.steps
    }

    /// Waits until all of the room is in abandoned code.
    pub(super) async fn stuck(&self) {
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
    pub(super) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        self.room.clone().acquire_owned().await.ok()
    }

    /// Room that is free now.
    pub(crate) fn free_room(&self) -> Option<OwnedSemaphorePermit> {
        self.room.clone().try_acquire_owned().ok()
    }

    /// When to look again at a task for which there was none.
    fn look_again(&self, now: Duration) -> Duration {
        let mut next = self
            .next_look
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *next = (*next + BETWEEN_LOOKS).max(now + SOONEST).min(now + LATEST);
        next.saturating_sub(now)
    }
}

/// The room that a turn has taken and not handed to its steps yet. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Reserved(Arc<Mutex<Reservation>>);

#[derive(Debug, Default)]
struct Reservation {
    rooms: Vec<OwnedSemaphorePermit>,
    /// The last decision left steps that only lack room.
    wants_more: bool,
}

impl Reserved {
    fn reservation(&self) -> MutexGuard<'_, Reservation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes room for so many steps, or as much as there is. Returns for how many.
    pub(super) fn reserve(&self, engine: &Engine, steps: usize) -> usize {
        let rooms = &mut self.reservation().rooms;
        while rooms.len() < steps
            && let Some(room) = engine.heavy.free_room()
        {
            rooms.push(room);
        }
        rooms.len().min(steps)
    }

    /// For a step.
    pub(super) fn take(&self) -> Option<OwnedSemaphorePermit> {
        self.reservation().rooms.pop()
    }

    /// For a step that waited for it.
    pub(super) fn put(&self, room: OwnedSemaphorePermit) {
        self.reservation().rooms.push(room);
    }

    /// What no step has taken is for others.
    pub(super) fn give_back(&self) {
        self.reservation().rooms.clear();
    }

    /// Whether the last decision left steps that only lack room.
    pub(super) fn wants_more(&self) -> bool {
        self.reservation().wants_more
    }

    /// A decision begins, which may leave such steps.
    pub(super) fn wants_enough(&self) {
        self.reservation().wants_more = false;
    }

    /// It leaves some.
    pub(super) fn want_more(&self) {
        self.reservation().wants_more = true;
    }
}

/// What is to be done about a task before it is claimed.
#[derive(Debug)]
pub(super) enum Room {
    /// Claim it: its next step is light, or has its room.
    Enough,
    /// It has its room, and stood in line for it: its row may have changed.
    Waited,
    /// Leave it to others, and look again after this.
    LookAgain(Duration),
}

impl Reserved {
    /// Takes the room that the next step of a task needs.
    pub(super) async fn for_next(
        &self,
        engine: &Engine,
        task_type: &TaskType,
        record: &TaskRecord,
        shutdown: &CancelToken,
    ) -> Room {
        if !starts_heavy(task_type, record) || self.reserve(engine, 1) == 1 {
            return Room::Enough;
        }
        let heavy = &engine.heavy;
        let clock = &engine.ports.clock;
        let Ok(_place) = heavy.line.clone().try_acquire_owned() else {
            return Room::LookAgain(heavy.look_again(clock.monotonic()));
        };
        let over = select(clock.sleep(IN_LINE_FOR), Box::pin(shutdown.cancelled()));
        match select(Box::pin(heavy.room()), over).await {
            Either::Left((room, _)) => {
                self.reservation().rooms.extend(room);
                Room::Waited
            }
            Either::Right(_) => Room::LookAgain(LOOK_AGAIN),
        }
    }
}

/// Whether a step that would start now is heavy. Conditions and probes may still decide otherwise.
fn starts_heavy(task_type: &TaskType, record: &TaskRecord) -> bool {
    let steps = task_type.decl.steps;
    let goes_forward =
        record.task.status != TaskStatus::Compensating && record.task.cancel_requested_at.is_none();
    goes_forward
        && steps.iter().any(|step| step.heavy)
        && matches!(plan::forward(task_type.decl, &record.steps, record.now),
            Forward::Start(stage) if stage.iter().any(|&at| steps[at].heavy))
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
