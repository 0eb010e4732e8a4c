//! What is known beside a task's own rows of what may hold it: processes, its queue, the limit and the breaker of its next step.
//! Reads, fails open, and must not change anything.

use super::children::{children_found, first_of};
use super::evidence::{BreakerFound, Surroundings};
use super::why_among;
use crate::admission::breakers::open_elsewhere;
use crate::admission::limits::limit_found;
use crate::admission::paused_queues::pause_of;
use crate::admission::paused_workers::paused_workers;
use crate::admission::places::{PlaceWait, named, place_found};
use crate::breaker::BreakerState;
use crate::engine::Engine;
use crate::ports::StoreError;
use crate::record::TaskRecord;
use crate::record::load;
use crate::turn::{breaker_of, likely_next};
use counterstep_contracts::operator::Why;
use counterstep_contracts::{QueueName, TaskId, WaitReason};
use futures::future::BoxFuture;
use serde_json::Value;
use std::time::Duration;

/// Reads what is known beside a task's own rows. What cannot be read is left out and logged: the rest is worth an answer.
pub fn surroundings<'a>(engine: &'a Engine, record: &'a TaskRecord) -> BoxFuture<'a, Surroundings> {
    read_around(engine, record, DEEPEST)
}

/// Maximum length of a chain of tasks, each waiting for the next, that is followed.
const DEEPEST: u32 = 3;

fn read_around<'a>(
    engine: &'a Engine,
    record: &'a TaskRecord,
    deeper: u32,
) -> BoxFuture<'a, Surroundings> {
    Box::pin(async move {
        let store = &engine.ports.store;
        let now = engine.ports.clock.monotonic();
        let back_for = engine.registration.known().database.back_for(now);
        let mut around = Surroundings {
            workers: read("the processes", record, store.workers().await),
            children: read("its children", record, children_found(store, record).await).flatten(),
            back_for,
            ..Surroundings::default()
        };
        if !record.task.status.is_at_rest() && !record.lease_is_live() {
            let queue = QueueName(record.task.queue.clone()).base();
            let pause = pause_of(engine, &queue).await;
            around.pause = read("the pause of its queue", record, pause).flatten();
            let paused = paused_workers(engine).await;
            around.paused_workers =
                read("the pauses of processes", record, paused).unwrap_or_default();
            let place = place_found(engine, record).await;
            around.place = read("the tasks of its key", record, place).flatten();
            held_back(engine, record, &mut around).await;
        }
        if record.lease_has_expired() {
            let reserved = store.reserved_until(record.task.id).await;
            around.reserved_until = read("its reservation", record, reserved).flatten();
        }
        if let Some(task) = first_other(engine, record, &around).await
            && deeper > 0
        {
            around.other = why_of(engine, task, deeper - 1).await.map(Box::new);
        }
        around
    })
}

/// The task that it waits for, where one can be named.
async fn first_other(
    engine: &Engine,
    record: &TaskRecord,
    around: &Surroundings,
) -> Option<TaskId> {
    if let Some(found) = &around.children {
        let first = first_of(&engine.ports.store, record, found).await;
        return read("its children", record, first).flatten();
    }
    let place = around.place.as_ref()?;
    match place.wait {
        PlaceWait::Behind(first) => Some(first),
        PlaceWait::Replacing => named(&place.holders, &place.key, 1).first().copied(),
        _ => None,
    }
}

async fn why_of(engine: &Engine, task: TaskId, deeper: u32) -> Option<Why> {
    let record = load::read(engine, task).await;
    let record = record
        .inspect_err(|error| tracing::warn!(%task, %error, "a task that another waits for could not be read"))
        .ok()??;
    // It has ended since: nothing waits for it any more.
    if record.task.status.is_terminal() {
        return None;
    }
    let around = read_around(engine, &record, deeper).await;
    Some(why_among(&engine.registry, &record, &around))
}

/// The limit and the breaker of its next step: as its last wait has them, where it sleeps for one.
async fn held_back(engine: &Engine, record: &TaskRecord, around: &mut Surroundings) {
    let Some(task_type) = engine.registry.of(&*record.task) else {
        return;
    };
    let decl = task_type.decl;
    let is_held = |reason| record.task.waiting == Some(reason);
    let slept = if is_held(WaitReason::Limit) || is_held(WaitReason::Breaker) {
        let history = engine.ports.store.history(record.task.id).await;
        read("its journal", record, history).and_then(|history| {
            let mut entries = history.audit.into_iter().rev().map(|row| row.entry);
            let last = entries.find(|entry| entry.event == "waits")?;
            let step = last.details.get("step").and_then(Value::as_str)?.to_owned();
            decl.steps.iter().position(|it| it.name == step)
        })
    } else {
        None
    };
    let next = match slept {
        Some(at) => vec![at],
        None => likely_next(&engine.registry, &task_type, record),
    };
    for at in next {
        let (step, name) = (&decl.steps[at], decl.steps[at].name.to_owned());
        let in_fallback = record.steps.get(at).is_some_and(|row| row.in_fallback);
        if step.host != record.task.host || in_fallback {
            continue;
        }
        if around.limit.is_none()
            && let Some(limit) = step.limit
        {
            let found = limit_found(engine, &limit, &record.task).await;
            around.limit = read("a limit", record, found).map(|found| (name.clone(), found));
        }
        if around.breaker.is_none()
            && let Some(breaker) = breaker_of(engine, &task_type, at)
        {
            let state = breaker.known().await;
            let state = match state {
                Some(BreakerState::Closed) if !engine.ports.hints.is_shared() => {
                    Some(state_elsewhere(engine, around, record, breaker.key()).await)
                }
                state => state,
            };
            around.breaker = Some(BreakerFound {
                name: breaker.key().to_owned(),
                step: name,
                probing: match state {
                    Some(BreakerState::HalfOpen) => breaker.probing().await,
                    _ => None,
                },
                state,
            });
        }
    }
}

/// How a breaker stands that is closed here, where each process has its own: for how long is known to the process alone.
async fn state_elsewhere(
    engine: &Engine,
    around: &Surroundings,
    record: &TaskRecord,
    name: &str,
) -> BreakerState {
    let Some(workers) = &around.workers else {
        return BreakerState::Closed;
    };
    let open = open_elsewhere(engine, workers).await;
    let open = read("the breakers of other processes", record, open).unwrap_or_default();
    match open
        .get(name)
        .is_some_and(|processes| !processes.is_empty())
    {
        true => BreakerState::Open(Duration::ZERO),
        false => BreakerState::Closed,
    }
}

fn read<T>(what: &str, record: &TaskRecord, found: Result<T, StoreError>) -> Option<T> {
    found
        .inspect_err(|error| {
            tracing::warn!(task = %record.task.id, %error, "{what} could not be read");
        })
        .ok()
}
