//! What a turn was given for its next steps and has not handed to them yet: room for heavy ones, permits of their limits; and the
//! probes of breakers, until they are reported. Must not ask for any.

use crate::admission::limits::LimitPermit;
use crate::breaker::{Breaker, Ticket, Verdict};
use crate::engine::Engine;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One value for all of it, which clones share. What is left in it when the last one is dropped is given back, but for probes:
/// those are settled by the end of the turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Permits(Arc<Mutex<Given>>);

#[derive(Debug, Default)]
struct Given {
    rooms: Vec<LimitPermit>,
    /// By step.
    permits: BTreeMap<usize, LimitPermit>,
    /// By step, also while its attempt runs.
    probes: BTreeMap<usize, (Breaker, Ticket)>,
    /// The last decision left steps that only lack room.
    wants_room: bool,
}

impl Permits {
    fn given(&self) -> MutexGuard<'_, Given> {
        self.0.lock()
    }

    /// Takes room for this number of steps, or as much as there is. Returns the number of steps that have room.
    pub(super) fn reserve(&self, engine: &Engine, steps: usize) -> usize {
        let rooms = &mut self.given().rooms;
        while rooms.len() < steps
            && let Some(room) = engine.heavy.free_room()
        {
            rooms.push(room);
        }
        rooms.len().min(steps)
    }

    /// For a step that waited for it.
    pub(super) fn put_room(&self, room: LimitPermit) {
        self.given().rooms.push(room);
    }

    /// For the attempt of a step.
    pub(super) fn take_room(&self) -> Option<LimitPermit> {
        self.given().rooms.pop()
    }

    pub(super) fn put(&self, at: usize, permit: LimitPermit) {
        self.given().permits.insert(at, permit);
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.given().permits.contains_key(&at)
    }

    /// For the attempt of a step.
    pub(super) fn take(&self, at: usize) -> Option<LimitPermit> {
        self.given().permits.remove(&at)
    }

    pub(super) fn put_probe(&self, at: usize, breaker: Breaker, ticket: Ticket) {
        self.given().probes.insert(at, (breaker, ticket));
    }

    /// To be reported with how the attempt of a step has ended.
    pub(super) fn take_probe(&self, at: usize) -> Option<(Breaker, Ticket)> {
        self.given().probes.remove(&at)
    }

    /// What no attempt has taken is for others.
    pub(super) fn give_back(&self) {
        let mut given = self.given();
        let rooms = std::mem::take(&mut given.rooms);
        let permits = std::mem::take(&mut given.permits);
        drop(given);
        // Their drop takes locks.
        drop((rooms, permits));
    }

    /// Others may probe where no attempt does.
    pub(super) async fn settle(&self, probes: impl Fn(usize) -> bool) {
        let unused: BTreeMap<_, _> = {
            let all = &mut self.given().probes;
            let (used, unused) = std::mem::take(all)
                .into_iter()
                .partition(|(at, _)| probes(*at));
            *all = used;
            unused
        };
        for (breaker, ticket) in unused.into_values() {
            breaker.report(ticket, Verdict::Unknown).await;
        }
    }

    /// Whether the last decision left steps that only lack room.
    pub(super) fn wants_room(&self) -> bool {
        self.given().wants_room
    }

    pub(super) fn want_room(&self, wants: bool) {
        self.given().wants_room = wants;
    }
}
