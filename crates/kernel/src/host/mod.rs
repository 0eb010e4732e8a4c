//! The loop of a host: fetch what the queue offers, look for what it forgot, and give each task a
//! turn. Everything that decides is in the turn.

pub(crate) mod deliveries;
mod due;
pub(crate) mod fetch_errors;
pub(crate) mod loop_watch;
pub mod lost_hosts;
pub mod outages;
pub mod scratch_sweep;
pub(crate) mod store_uptime;
pub(crate) mod under_way;
pub(crate) mod waiting_looks;

use crate::admission::limits::exchange::keep_exchanged;
use crate::cancel::CancelToken;
use crate::change::announce::clear_outbox;
use crate::dead_letters::poison_delivery::keep_poison;
use crate::engine::Engine;
use crate::engine::time_limits::queue_answer;
use crate::host::outages::keep_watched;
use crate::ports::{Delivery, Settle};
use crate::spool::Resumed;
use crate::task::Registry;
use crate::turn::{Offer, TurnEnd, turn_for};
use crate::workers::registration::Part;
use crate::workers::worker_registry;
use counterstep_contracts::{Host, QueueName};
use counterstep_steps::guard;
use due::{run_due, take_due};
use futures::future::{BoxFuture, Either, join_all, select};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a task may wait for its message before a host polls the database for it.
pub(crate) const UNCLAIMED_FOR: Duration = Duration::from_secs(5);

/// How a host takes work.
#[derive(Debug, Clone)]
pub struct HostSettings {
    /// Which kind of steps it runs.
    pub host: Host,
    /// The queues it takes tasks from.
    pub queues: Vec<QueueName>,
    /// Tasks at a time.
    pub concurrency: usize,
    /// How often it looks for due tasks that no message announced.
    pub poll: Duration,
    /// A dispatched task that no host has claimed for this long counts as one whose message was
    /// lost.
    pub unclaimed_for: Duration,
}

impl HostSettings {
    /// For all task types of a process: their queues of this kind of host.
    #[must_use]
    pub fn for_all(registry: &Registry, host: Host, concurrency: usize) -> Self {
        Self {
            host,
            queues: registry.queues(host),
            concurrency,
            poll: Duration::from_millis(500),
            unclaimed_for: UNCLAIMED_FOR,
        }
    }
}

/// Starts a future that must not be cancelled.
pub type Spawn = Arc<dyn Fn(BoxFuture<'static, ()>) + Send + Sync>;

/// Takes tasks until `shutdown`, then waits for those it has.
pub fn serve(
    engine: Engine,
    settings: HostSettings,
    shutdown: CancelToken,
    spawn: Spawn,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let part = Part {
            queues: settings.queues.clone(),
            concurrency: settings.concurrency,
        };
        let serving = Box::pin(take(&engine, &settings, &shutdown, &spawn));
        let serving = keep_watched(&engine, serving);
        worker_registry::keep_refreshed(&engine, part, serving).await;
    })
}

async fn take(engine: &Engine, settings: &HostSettings, shutdown: &CancelToken, spawn: &Spawn) {
    let work = Box::pin(take_until_done(engine, settings, shutdown, spawn));
    keep_exchanged(engine, work).await;
}

async fn take_until_done(
    engine: &Engine,
    settings: &HostSettings,
    shutdown: &CancelToken,
    spawn: &Spawn,
) {
    let slots = Arc::new(Semaphore::new(settings.concurrency));
    let resumed = Resumed::beside(settings.host, &slots);
    let taking = async {
        // Before any other work: at this moment other hosts may find that the leases are over.
        resumed.take(engine, shutdown, spawn).await;
        futures::join!(
            resumed.take_until(engine, shutdown, spawn),
            take_deliveries(engine, settings, &slots, shutdown, spawn),
            take_due(engine, settings, &slots, shutdown, spawn),
            take_deferred(engine, settings, &slots, shutdown, spawn),
            clear_outbox_often(engine, shutdown)
        );
    };
    // The loops end by themselves on shutdown; a fetch in flight is given up, and what it still
    // brings is given back beside the turns that go on.
    taking.await;
    let all = u32::try_from(settings.concurrency).unwrap_or(u32::MAX);
    let release = Box::pin(engine.ports.queue.release());
    let released = select(release, engine.ports.clock.sleep(LAST_RELEASE));
    let _ = futures::join!(slots.acquire_many(all), resumed.ended(), released);
    // What it leaves there is published once more, by the relay.
    let clearing = Box::pin(clear_outbox(engine));
    select(clearing, engine.ports.clock.sleep(LAST_CLEARING)).await;
}

/// Time limit for returning fetched messages at shutdown. Later ones wait for the ack wait.
const LAST_RELEASE: Duration = Duration::from_secs(2);

/// How long a process waits at its end for its events to leave the outbox.
const LAST_CLEARING: Duration = Duration::from_secs(1);

/// Sees to it that no published event stands in the outbox for long.
async fn clear_outbox_often(engine: &Engine, shutdown: &CancelToken) {
    let pause = Duration::from_millis(100);
    while let Either::Left(_) = select(
        engine.ports.clock.sleep(pause),
        Box::pin(shutdown.cancelled()),
    )
    .await
    {
        select(
            Box::pin(clear_outbox(engine)),
            Box::pin(shutdown.cancelled()),
        )
        .await;
    }
}

async fn take_deliveries(
    engine: &Engine,
    settings: &HostSettings,
    slots: &Arc<Semaphore>,
    shutdown: &CancelToken,
    spawn: &Spawn,
) {
    let mut found_no_slot = false;
    while !shutdown.is_cancelled() {
        // Never more than there are free slots: what waits here could run elsewhere. The slot
        // itself is not held while waiting for messages, or a host of one slot could never look for
        // due tasks.
        let Some(free) = slot(slots, shutdown).await else {
            return;
        };
        let max = room(engine, settings, slots.available_permits() + 1);
        // The slot is held for the fetch only where other tasks took that of the last delivery.
        let mut kept = found_no_slot.then_some(free);
        found_no_slot = false;
        // A task that was lost with its hosts runs among few: what is fetched now would only be
        // given back. Or abandoned code blocks as many threads as there are slots.
        if max == 0 {
            select(
                engine.ports.clock.sleep(settings.poll),
                Box::pin(shutdown.cancelled()),
            )
            .await;
            continue;
        }
        let open = engine.not_paused(&settings.queues).await;
        let queues = lanes(engine, &open);
        let fetch = engine.ports.queue.fetch(&queues, max, settings.poll);
        let deliveries = match select(fetch, Box::pin(shutdown.cancelled())).await {
            Either::Left((Ok(deliveries), _)) => {
                engine.deliveries.fetched(&open, &deliveries, max);
                fetch_errors::note(engine, &settings.queues, None);
                deliveries
            }
            Either::Left((Err(error), _)) => {
                engine.deliveries.fetched(&open, &[], max);
                fetch_errors::note(engine, &settings.queues, Some((&open, &error)));
                tracing::warn!(%error, "fetching from the queue failed");
                engine.ports.clock.sleep(settings.poll).await;
                continue;
            }
            Either::Right(_) => return,
        };
        let mut deliveries = deliveries.into_iter();
        while let Some(delivery) = deliveries.next() {
            // Other tasks may have taken the slots meanwhile. The delivery waits for one, but not for long: other hosts may
            // be idle.
            let permit = match kept.take() {
                Some(kept) => Some(kept),
                None => {
                    let waits = engine.ports.clock.sleep(SLOT_WAIT);
                    match select(Box::pin(slot(slots, shutdown)), waits).await {
                        Either::Left((permit, _)) => permit,
                        Either::Right(_) => None,
                    }
                }
            };
            let Some(permit) = permit else {
                let unstarted = std::iter::once(delivery).chain(deliveries);
                give_back(engine, unstarted).await;
                found_no_slot = true;
                break;
            };
            spawn(Box::pin(run_delivery(
                engine.clone(),
                settings.host,
                delivery,
                shutdown.clone(),
                permit,
            )));
        }
    }
}

/// Maximum wait of a delivery for a slot.
const SLOT_WAIT: Duration = Duration::from_secs(1);

/// What a host fetches from: the lanes of a queue are asked beside it, so that a tenant with many waiting tasks
/// keeps no other one waiting, and what is urgent waits for none of them. A lane for which no type has anything costs a broker a consumer.
fn lanes(engine: &Engine, queues: &[QueueName]) -> Vec<QueueName> {
    let all = queues.iter().flat_map(QueueName::lanes);
    if engine.ports.queue.hands_out_tasks() {
        return all.collect();
    }
    all.filter(|lane| engine.registry.uses_lane(lane)).collect()
}

/// How many tasks may be taken into `free` slots. Abandoned code gives its slot back, or a few steps
/// that never return would end a worker's work; but where it is as much as there are slots, the
/// process takes nothing more, and its liveness probe fails.
fn room(engine: &Engine, settings: &HostSettings, free: usize) -> usize {
    if engine.isolation.abandoned() >= settings.concurrency {
        return 0;
    }
    free.min(engine.isolation.room())
}

/// Other hosts get these at once.
async fn give_back(engine: &Engine, unstarted: impl Iterator<Item = Delivery>) {
    let nak = |delivery: Delivery| async move {
        let nak = Settle::Nak(Duration::ZERO);
        let settled = engine.ports.queue.settle(&delivery.tag, nak);
        if let Err(error) = queue_answer(engine.ports.clock.as_ref(), settled).await {
            tracing::warn!(%error, "a delivery could not be given back; it comes again after the ack wait");
        }
    };
    join_all(unstarted.map(nak)).await;
}

async fn slot(slots: &Arc<Semaphore>, shutdown: &CancelToken) -> Option<OwnedSemaphorePermit> {
    match select(
        Box::pin(slots.clone().acquire_owned()),
        Box::pin(shutdown.cancelled()),
    )
    .await
    {
        Either::Left((permit, _)) => permit.ok(),
        Either::Right(_) => None,
    }
}

async fn run_delivery(
    engine: Engine,
    host: Host,
    delivery: Delivery,
    shutdown: CancelToken,
    permit: OwnedSemaphorePermit,
) {
    let Delivery {
        tag,
        queue,
        source,
        is_first,
        message,
    } = delivery;
    let queue = queue.base();
    let message = match message {
        Ok(message) => message,
        Err(poison) => return keep_poison(&engine, &tag, queue, poison).await,
    };
    let task = message.task;
    if guard!("ack behind the turn", false) {
        let _ = engine.ports.queue.settle(&tag, Settle::Ack).await;
    }
    let runs = worker_registry::runs(&engine, task);
    let running = turn_for(
        &engine,
        host,
        Offer {
            message: &message,
            queue: &queue,
            is_first,
        },
        &shutdown,
    );
    let progress = Box::pin(async {
        // One may be late, or lost.
        let every = engine.ports.queue.ack_wait() / 3;
        loop {
            engine.ports.clock.sleep(every).await;
            if let Err(error) = engine.ports.queue.settle(&tag, Settle::Progress).await {
                tracing::warn!(%task, %error, "a progress ack failed");
            }
        }
    });
    let end = match select(running, progress).await {
        Either::Left((end, _)) => end,
        Either::Right((never, _)) => never,
    };
    drop(runs);
    tracing::debug!(%task, ?end, "turn ended");
    let settle = match end {
        TurnEnd::Contradicted(why) => {
            return keep_poison(&engine, &tag, queue, source.poison(why)).await;
        }
        TurnEnd::Rests(_)
        | TurnEnd::GivenBack
        | TurnEnd::NotNow
        | TurnEnd::Gone
        | TurnEnd::Lost => Settle::Ack,
        // The lease may run out instead of being released: look again then.
        TurnEnd::Busy(left) => Settle::Nak(left + Duration::from_millis(100)),
        TurnEnd::NoRoom(left) => Settle::Nak(left),
        TurnEnd::UnknownType => Settle::Nak(UNKNOWN_FOR),
        TurnEnd::StoreDown => Settle::Nak(Duration::from_secs(1)),
    };
    if let Err(error) = queue_answer(
        engine.ports.clock.as_ref(),
        engine.ports.queue.settle(&tag, settle),
    )
    .await
    {
        tracing::warn!(%task, %error, "settling a delivery failed; it will come again and find nothing to do");
    }
    drop(permit);
}

/// Gives deferred tasks their turns as places in the line of their limit become free.
async fn take_deferred(
    engine: &Engine,
    settings: &HostSettings,
    slots: &Arc<Semaphore>,
    shutdown: &CancelToken,
    spawn: &Spawn,
) {
    let receiver = engine
        .limits
        .deferred_receiver(settings.host, engine.registration.concurrency());
    loop {
        let next = Box::pin(receiver.next());
        let taken = match select(next, Box::pin(shutdown.cancelled())).await {
            Either::Left((taken, _)) => taken,
            Either::Right(_) => return,
        };
        // A task of a paused queue is dropped: polling finds it when the queue is resumed.
        let queue = taken.deferred.queue.base();
        if engine.not_paused(&[queue]).await.is_empty() {
            continue;
        }
        let Some(permit) = slot(slots, shutdown).await else {
            return;
        };
        let (engine, host, shutdown) = (engine.clone(), settings.host, shutdown.clone());
        let has_room = room(&engine, settings, 1) > 0;
        spawn(Box::pin(async move {
            let end = match has_room {
                true => Some(run_due(&engine, host, taken.deferred.task, &shutdown).await),
                false => None,
            };
            drop(permit);
            if matches!(end, None | Some(TurnEnd::StoreDown | TurnEnd::NoRoom(_))) {
                // Its place stays reserved meanwhile: the next task would end like it at once.
                let pause = engine.ports.clock.sleep(DEFERRED_AGAIN);
                select(pause, Box::pin(shutdown.cancelled())).await;
                taken.defer_again();
            }
        }));
    }
}

/// The delay until a deferred task that could not start is deferred again.
const DEFERRED_AGAIN: Duration = Duration::from_secs(1);

/// Pause before a task that another program is meant for is looked at again.
const UNKNOWN_FOR: Duration = Duration::from_secs(10);
