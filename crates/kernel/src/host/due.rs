//! The tasks that no message has brought: those that wait for a time, and those whose message is missing.

use super::{HostSettings, Spawn, UNKNOWN_FOR, room};
use crate::admission::isolation::WhenFull;
use crate::cancel::CancelToken;
use crate::engine::Engine;
use crate::ports::{Find, Observation, StoreError, TaskHead};
use crate::record::DbTime;
use crate::turn::{TurnEnd, turn_when};
use crate::workers::worker_registry;
use counterstep_contracts::{Host, QueueName, TaskId, TaskStatus};
use futures::future::{Either, select};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

pub(super) async fn take_due(
    engine: &Engine,
    settings: &HostSettings,
    slots: &Arc<Semaphore>,
    shutdown: &CancelToken,
    spawn: &Spawn,
) {
    let known = engine.registry.known();
    let left: Left = Arc::default();
    // Behind which task the next look begins, where the last one did not see all that are due.
    let mut after = None;
    let mut pause = settings.poll;
    let round = engine.vitals.enter("due tasks", None);
    loop {
        round.back_by(engine.ports.clock.monotonic() + pause + LOOK_TAKES);
        if let Either::Right(_) = select(
            engine.ports.clock.sleep(pause),
            Box::pin(shutdown.cancelled()),
        )
        .await
        {
            return;
        }
        pause = settings.poll;
        let free = room(engine, settings, slots.available_permits());
        if free == 0 {
            pause = settings.poll / 10;
            continue;
        }
        // Those that were left stand among the due ones, and must not hide the others: there is room for them, and each look
        // goes on where the last one ended.
        let limit = free
            .saturating_add(still_left(&left, engine.ports.clock.monotonic()))
            .min(MAX_LOOKED_AT);
        // Also a lane that no type has any more: a task may stand there yet.
        let open = engine.not_paused(&settings.queues).await;
        let due = Find::Claimable {
            queues: open.iter().flat_map(QueueName::lanes).collect(),
            known: known.clone(),
            unclaimed_for: settings.unclaimed_for,
            after,
        };
        // Reads only, and is given up on shutdown: a connection that died in silence would hold up
        // the end.
        let look = engine
            .ports
            .store
            .find(&due, u32::try_from(limit).unwrap_or(u32::MAX));
        let look = select(look, engine.ports.clock.sleep(LOOK_TAKES));
        let tasks = match select(look, Box::pin(shutdown.cancelled())).await {
            Either::Left((Either::Left((found, _)), _)) => found,
            Either::Left((Either::Right(_), _)) => Err(StoreError::Unavailable(format!(
                "no answer within {LOOK_TAKES:?}"
            ))),
            Either::Right(_) => return,
        };
        worker_registry::note_answer(engine, &tasks);
        let mut tasks = match tasks {
            Ok(tasks) => tasks,
            Err(error) => {
                tracing::warn!(%error, "looking for due tasks failed");
                continue;
            }
        };
        let last = tasks.last().map(place).filter(|_| tasks.len() >= limit);
        tasks.retain(|task| !left.lock().contains_key(&task.task));
        // As many as were asked for: there are likely to be more, and slots that are free again in
        // a moment.
        if tasks.len() >= free {
            pause = settings.poll / 10;
        }
        let mut reached = after;
        after = last;
        for task in tasks {
            let Ok(permit) = slots.clone().try_acquire_owned() else {
                after = reached;
                break;
            };
            reached = Some(place(&task));
            let (engine, left, shutdown) = (engine.clone(), left.clone(), shutdown.clone());
            let host = settings.host;
            let is_late = lacks_message(&engine, host, &task);
            spawn(Box::pin(async move {
                let end = run_due(&engine, host, task.task, &shutdown).await;
                if is_late && has_run(&end) {
                    let task_type = &task.task_type;
                    engine.observe(Observation::FoundByPolling { task_type });
                    tracing::debug!(task = %task.task, "no message announced this task: found by polling");
                }
                let again = match end {
                    TurnEnd::NoRoom(time) => Some(time),
                    TurnEnd::UnknownType => Some(UNKNOWN_FOR),
                    _ => None,
                };
                if let Some(time) = again {
                    let until = engine.ports.clock.monotonic() + time;
                    left.lock().insert(task.task, until);
                }
                drop(permit);
            }));
        }
    }
}

/// Its place in the order of the due ones.
const fn place(task: &TaskHead) -> (DbTime, TaskId) {
    (task.since, task.task)
}

/// Whether the queue should have brought it and brings nothing. Tasks that wait for a time are found by polling alone.
fn lacks_message(engine: &Engine, host: Host, task: &TaskHead) -> bool {
    let was_announced = task.status.is_some_and(TaskStatus::is_unclaimed);
    if !was_announced || engine.ports.queue.hands_out_tasks() {
        return false;
    }
    let known = task
        .version
        .and_then(|version| engine.registry.get(&task.task_type, version));
    known.is_some_and(|known| {
        let queue = known.decl.queue_of(host).base();
        engine.deliveries.are_missing(&queue)
    })
}

const fn has_run(end: &TurnEnd) -> bool {
    matches!(end, TurnEnd::Rests(_) | TurnEnd::GivenBack)
}

/// Due tasks for which there was no room, or that this program cannot read, and until when they are
/// skipped.
type Left = Arc<Mutex<HashMap<TaskId, Duration>>>;

/// Timeout of a read of due tasks.
const LOOK_TAKES: Duration = Duration::from_secs(30);

/// Maximum number of due tasks of one poll.
const MAX_LOOKED_AT: usize = 2_000;

fn still_left(left: &Left, now: Duration) -> usize {
    let mut left = left.lock();
    left.retain(|_, until| *until > now);
    left.len()
}

pub(super) async fn run_due(
    engine: &Engine,
    host: Host,
    task: TaskId,
    shutdown: &CancelToken,
) -> TurnEnd {
    let _runs = worker_registry::runs(engine, task);
    let end = turn_when(engine, host, task, WhenFull::Leave, shutdown).await;
    tracing::debug!(%task, ?end, "turn of a due task ended");
    end
}
