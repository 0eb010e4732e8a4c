//! The worker registry: each process keeps a row with what it can run and what it runs, and
//! refreshes it while it works. It fails open: a process whose row cannot be written works on, and
//! no other process takes anything from it for that.

use crate::admission::breakers;
use crate::client;
use crate::engine::Engine;
use crate::host::fetch_errors;
use crate::ports::{
    Activity, KeptResults, Passed, REFRESH_TAKES, StoreError, WorkerRow, refreshed_every,
};
use crate::workers::registration::{Part, Runs};
use counterstep_contracts::TaskId;
use futures::channel::oneshot;
use futures::future::{BoxFuture, Either, join, select};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum number of running tasks, and of limits, that are named.
const NAMED: usize = 100;

/// The row of all processes that make one pass and end, whichever machine they run on: a row each
/// would list every run of a day.
const ONE_PASS: &str = "reconciler:once";

/// Does the work, and meanwhile refreshes this process's row.
pub fn keep_refreshed<'a, T: Send + 'a>(
    engine: &'a Engine,
    part: Part,
    work: BoxFuture<'a, T>,
) -> BoxFuture<'a, T> {
    Box::pin(async move {
        let number = engine.registration.join(part);
        let now = engine.ports.clock.monotonic();
        engine.registration.known().queues.begin(now);
        let (over, mut ended) = oneshot::channel::<()>();
        let work = async move {
            let done = work.await;
            drop(over);
            done
        };
        let refreshing = async {
            let pause = refreshed_every(engine.settings.lost_after);
            let round = engine.vitals.enter("registration", None);
            let back = || round.back_by(engine.ports.clock.monotonic() + pause + REFRESH_TAKES);
            back();
            refresh(engine, current_row(engine).await).await;
            back();
            while let Either::Left(_) = select(engine.ports.clock.sleep(pause), &mut ended).await {
                if engine.registration.is_oldest(number) {
                    refresh(engine, current_row(engine).await).await;
                }
                back();
            }
        };
        let (done, ()) = join(work, refreshing).await;
        // Where other parts are left, their next refresh shows that this one has ended. A refresh
        // by this part could arrive after their last one, and the process would be listed as alive
        // once more. With what this part served: its row stays for a day.
        let stopped = stopped_row(engine);
        if !engine.registration.leave(number) {
            refresh(engine, stopped).await;
        }
        done
    })
}

/// Notes what a pass of this reconciler did, and when it was complete by this process's timer; the
/// next refresh of this process's row has it.
pub fn note_pass(engine: &Engine, at: Duration, counts: BTreeMap<String, u64>) {
    engine.registration.known().passed = Some((at, counts));
}

/// Writes what the only pass of this process did, for those who watch that there are passes.
pub fn write_single_pass(engine: &Engine, counts: BTreeMap<String, u64>) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        note_pass(engine, engine.ports.clock.monotonic(), counts);
        refresh(
            engine,
            WorkerRow {
                id: ONE_PASS.to_owned(),
                ..stopped_row(engine)
            },
        )
        .await;
    })
}

/// Notes whether the database has answered this process.
pub(crate) fn note_answer<T>(engine: &Engine, answer: &Result<T, StoreError>) {
    let now = engine.ports.clock.monotonic();
    engine.registration.known().database.note(answer, now);
}

/// What this process keeps in its spool; `None`: it has none.
#[must_use]
pub fn kept_results(engine: &Engine) -> Option<KeptResults> {
    let stats = engine.spool.as_ref()?.stats();
    let age = |kept_at| engine.ports.clock.unix_millis().saturating_sub(kept_at);
    Some(KeptResults {
        results: stats.entries,
        bytes: stats.bytes,
        oldest: stats
            .oldest
            .map(|kept_at| Duration::from_millis(age(kept_at))),
    })
}

/// The same, unless it runs here already.
pub(crate) fn runs_alone(engine: &Engine, task: TaskId) -> Option<Runs> {
    let mut known = engine.registration.known();
    if known.running.contains_key(&task) {
        return None;
    }
    known.running.insert(task, 1);
    Some(Runs {
        task,
        registration: engine.registration.clone(),
    })
}

pub(crate) fn runs(engine: &Engine, task: TaskId) -> Runs {
    *engine.registration.known().running.entry(task).or_default() += 1;
    Runs {
        task,
        registration: engine.registration.clone(),
    }
}

pub(crate) async fn current_row(engine: &Engine) -> WorkerRow {
    let since = {
        let known = engine.registration.known();
        known.closings_from.or(known.refreshed_at)
    };
    let (breakers, are_read) = breakers::not_closed_here(engine, since).await;
    engine.registration.known().closings_from = since.filter(|_| !are_read);
    WorkerRow {
        breakers,
        ..row_without_breakers(engine)
    }
}

fn row_without_breakers(engine: &Engine) -> WorkerRow {
    let now = engine.ports.clock.monotonic();
    let mut known = engine.registration.known();
    let running: Vec<_> = known.running.keys().copied().take(NAMED).collect();
    let activity = Activity {
        memory: (engine.settings.memory)(),
        turns: known.turns.running(&running, now),
        recent: known.turns.recent(now),
        flow: known.queues.sums(now),
    };
    let queues: BTreeSet<_> = known
        .parts
        .values()
        .flat_map(|part| part.queues.clone())
        .collect();
    let concurrency: usize = known.parts.values().map(|part| part.concurrency).sum();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    WorkerRow {
        id: engine.id.to_string(),
        machine: engine.settings.machine.clone(),
        program: engine.settings.program.clone(),
        queues: queues.into_iter().collect(),
        types: engine.registry.known(),
        concurrency: count(concurrency),
        running,
        running_count: count(known.running.len()),
        heavy: engine.heavy.steps,
        heavy_count: engine.heavy.running(),
        permits: engine.limits.in_use().into_iter().take(NAMED).collect(),
        abandoned_count: count(engine.isolation.abandoned()),
        lost_after: engine.settings.lost_after,
        passed: known.passed.clone().map(|(at, counts)| Passed {
            ago: now.saturating_sub(at),
            counts,
        }),
        kept: kept_results(engine),
        fetch_errors: fetch_errors::all(engine, &known),
        breakers: BTreeMap::new(),
        activity,
        started_at: known.started_at,
        is_stopped: false,
    }
}

fn stopped_row(engine: &Engine) -> WorkerRow {
    let row = row_without_breakers(engine);
    WorkerRow {
        // What it ran last is shown as long as the row is there.
        activity: Activity {
            recent: row.activity.recent,
            ..Activity::default()
        },
        running: Vec::new(),
        running_count: 0,
        heavy_count: 0,
        permits: BTreeMap::new(),
        fetch_errors: Vec::new(),
        is_stopped: true,
        ..row
    }
}

/// Writes the row of this process. Dropped at its time limit: the next write has all of it.
async fn refresh(engine: &Engine, row: WorkerRow) {
    let refresh = Box::pin(engine.ports.store.refresh_worker(&row));
    let refreshed = match select(refresh, engine.ports.clock.sleep(REFRESH_TAKES)).await {
        Either::Left((refreshed, _)) => refreshed,
        Either::Right(_) => Err(StoreError::Unavailable(format!(
            "no answer within {REFRESH_TAKES:?}"
        ))),
    };
    let failing = {
        let mut known = engine.registration.known();
        if let Ok(now) = refreshed {
            known.started_at.get_or_insert(now);
            known.refreshed_at = Some(now);
        }
        known
            .database
            .note(&refreshed, engine.ports.clock.monotonic());
        std::mem::replace(&mut known.failing, refreshed.is_err())
    };
    if refreshed.is_ok() && !row.is_stopped {
        client::free_keys(engine).await;
    }
    match refreshed {
        Ok(_) if failing => tracing::info!("worker registration restored"),
        Ok(_) => {}
        // Once; it works on all the same.
        Err(error) if !failing => {
            tracing::warn!(%error, "worker registration failed: this process may be listed as lost");
        }
        Err(error) => tracing::debug!(%error, "worker registration failed again"),
    }
}
