//! Room for heavy steps, reserved for the next steps of a task.

use super::lock::LOOK_AGAIN;
use crate::cancel::CancelToken;
use crate::engine::Engine;
use crate::plan::{self, ForwardPlan};
use crate::record::TaskRecord;
use crate::task::TaskType;
use counterstep_contracts::TaskStatus;
use futures::future::{Either, select};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// So long a task stands in line for room, with a slot but without a lease, before it is left to
/// other hosts.
const IN_LINE_FOR: Duration = Duration::from_secs(5);

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
            ForwardPlan::Start(stage) if stage.iter().any(|&at| steps[at].heavy))
}
