//! Leases that ran out while the store was away. No host can prolong one then, so that it says nothing of its host. Where steps go
//! on meanwhile, a lease counts as lost once its owner could have prolonged it for a whole lease. Must not decide what becomes of
//! a task.

use crate::engine::Engine;
use crate::ports::KnownType;
use crate::task::TaskType;
use counterstep_contracts::{Epoch, TaskId};
use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, select};
use std::time::Duration;
use uuid::Uuid;

/// How many times in a lease the store is probed.
const ASKED: u32 = 6;

/// The shortest time without an answer that counts as an outage, as a fraction (1/2) of a lease. An outage in
/// which a lease can run out takes two thirds of it: heartbeats come at a third.
const GAP: u32 = 2;

impl Engine {
    /// How long after the end of a lease of such a task its host counts as lost. Zero: it does now.
    pub(crate) fn is_lost_in(&self, task_type: &TaskType) -> Duration {
        let Some(shortest) = self.shortest_watched_lease() else {
            return Duration::ZERO;
        };
        if !task_type.decl.finishes_when_cut_off() {
            return Duration::ZERO;
        }
        let now = self.ports.clock.monotonic();
        let lease = self.settings.lease_of(task_type);
        match self.contact.lasts(now, shortest / GAP) {
            Some(lasts) => lease.saturating_sub(lasts),
            None => Duration::ZERO,
        }
    }

    /// The types whose leases that have run out say that their hosts are lost, and those of which that is not known yet, with
    /// the time until it is.
    #[must_use]
    pub fn known_lost(&self) -> (Vec<KnownType>, Vec<(KnownType, Duration)>) {
        let (mut known, mut not_yet) = (Vec::new(), Vec::new());
        for task_type in self.registry.taken() {
            let of = self.registry.as_known(task_type);
            match self.is_lost_in(task_type) {
                Duration::ZERO => known.push(of),
                left => not_yet.push((of, left)),
            }
        }
        (known, not_yet)
    }

    /// Of types with steps that go on; `None`: there are none.
    fn shortest_watched_lease(&self) -> Option<Duration> {
        let watched = self
            .registry
            .iter()
            .filter(|it| it.decl.finishes_when_cut_off());
        watched.map(|it| self.settings.lease_of(it)).min()
    }
}

/// Does the work, and meanwhile probes the store at intervals short enough to notice each outage in which a lease can run out. For each
/// process that takes over tasks.
pub fn keep_watched<'a, T: Send + 'a>(
    engine: &'a Engine,
    work: BoxFuture<'a, T>,
) -> BoxFuture<'a, T> {
    Box::pin(async move {
        let Some(lease) = engine.shortest_watched_lease() else {
            return work.await;
        };
        let (over, ended) = oneshot::channel::<()>();
        let work = async move {
            let done = work.await;
            drop(over);
            done
        };
        futures::join!(work, watch_until(engine, lease, ended)).0
    })
}

async fn watch_until(engine: &Engine, lease: Duration, mut ended: oneshot::Receiver<()>) {
    let clock = &engine.ports.clock;
    engine.contact.begin();
    loop {
        // As a heartbeat, which an owner of a lease needs to get through: a standby answers reads. There is no such task.
        let nothing = TaskId(Uuid::nil());
        let asked = engine.ports.store.heartbeat(nothing, Epoch(0), lease);
        if let Either::Left((Ok(_), _)) = select(asked, clock.sleep(lease / GAP)).await {
            engine.contact.answered(clock.monotonic(), lease / GAP);
        }
        if let Either::Right(_) = select(clock.sleep(lease / ASKED), &mut ended).await {
            return;
        }
    }
}
