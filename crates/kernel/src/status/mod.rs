//! What is under way, counted, and which processes run, as metrics and operators are shown it; and
//! whether the store takes writes, for the readiness check. Decides nothing.

pub mod durations;
pub mod health;
pub(crate) mod observe;
pub mod progress;
pub mod queue_rates;
pub mod task_log;
pub(crate) mod traces;
pub mod worker_details;

use crate::admission::breakers::states;
use crate::admission::limits::{self, LimitUse};
use crate::admission::paused_queues;
use crate::admission::paused_workers::{PausedWorkers, paused_workers};
use crate::admission::pauses::Pause;
use crate::breaker::BreakerState;
use crate::engine::Engine;
use crate::ports::{
    FetchError, Flow, FlowQuery, Gauges, ParkedCount, StoreError, TaskCount, WorkerSeen, Workers,
};
use crate::record::DbTime;
use crate::times::rfc3339;
use crate::workers::worker_registry;
use counterstep_contracts::workers::{
    FetchErrorView, KeptView, PassView, SampleView, StatusView, TaskCountView, WorkerState,
    WorkerType, WorkerView, WorkersView,
};
use counterstep_contracts::{QueueName, TaskId, TaskStatus};
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What metrics show of an installation.
#[derive(Debug, Clone)]
pub struct InstallationFigures {
    /// As `GET /api/workers` shows it.
    pub view: WorkersView,
    /// Tasks that have not ended, by state, queue and the labels of the settings.
    pub tasks: Vec<TaskCount>,
    /// Parked tasks by state and type; of the types of this program also where there are none.
    pub parked: Vec<ParkedCount>,
    /// The queues, and which are paused.
    pub queues: BTreeMap<QueueName, bool>,
    /// The limits of steps.
    pub limits: Vec<LimitFigures>,
}

/// What is in use of a limit, for all tenants and label values together.
#[derive(Debug, Clone)]
pub struct LimitFigures {
    /// Name of the limit.
    pub name: String,
    /// Permits that are held, over all processes.
    pub held: u64,
    /// Attempts that wait for one.
    pub waiting: u64,
}

/// Tasks, ages and processes, in two queries.
///
/// # Errors
/// When the store does not answer.
pub fn read(engine: &Engine) -> BoxFuture<'_, Result<WorkersView, StoreError>> {
    Box::pin(async move { Ok(read_by(engine, &[]).await?.view) })
}

/// The same for metrics: with the labels that the settings name, queues and limits.
///
/// # Errors
/// When the store does not answer.
pub fn figures(engine: &Engine) -> BoxFuture<'_, Result<InstallationFigures, StoreError>> {
    Box::pin(async move {
        let found = read_by(engine, &engine.settings.metrics_labels).await?;
        let (view, gauges) = (found.view, found.gauges);
        let limits = limits::limits(engine).await?.into_iter().map(|row| {
            let sum = |of: fn(&LimitUse) -> u32| row.uses.iter().map(|it| u64::from(of(it))).sum();
            LimitFigures {
                held: sum(|it| it.held),
                waiting: sum(|it| it.waiting),
                name: row.name,
            }
        });
        Ok(InstallationFigures {
            view,
            tasks: gauges.tasks,
            parked: with_zeros(engine, gauges.parked),
            queues: paused_queues::pauses(engine).await?,
            limits: limits.collect(),
        })
    })
}

/// What is under way, as it was read.
struct StatusRead {
    view: WorkersView,
    gauges: Gauges,
    /// When the processes were read.
    now: DbTime,
}

async fn read_by(engine: &Engine, labels: &[String]) -> Result<StatusRead, StoreError> {
    let mut gauges = engine.ports.store.gauges(labels).await?;
    gauges.tasks = of_queues(gauges.tasks);
    let found = engine.ports.store.workers().await?;
    let count = |state| {
        found
            .rows
            .iter()
            .filter(|seen| seen.state(found.now) == state)
            .count() as u64
    };
    let status = StatusView {
        tasks: by_queue(&gauges.tasks),
        oldest_running_seconds: gauges.oldest_running.map(|age| age.as_secs()),
        oldest_due_seconds: gauges.oldest_due.map(|age| age.as_secs()),
        oldest_unpublished_seconds: gauges.oldest_unpublished.map(|age| age.as_secs()),
        workers_alive: count(WorkerState::Alive),
        workers_lost: count(WorkerState::Lost),
    };
    let now = found.now;
    let workers = views(found, &paused_workers(engine).await?);
    Ok(StatusRead {
        view: WorkersView { status, workers },
        gauges,
        now,
    })
}

/// A look at the installation: how it stands, and what came and went since the look before.
///
/// # Errors
/// When the store does not answer.
pub fn look(
    engine: &Engine,
    since: Option<DbTime>,
) -> BoxFuture<'_, Result<(DbTime, SampleView), StoreError>> {
    Box::pin(async move {
        let store = &engine.ports.store;
        let StatusRead { view, now, .. } = read_by(engine, &[]).await?;
        let since = since.unwrap_or(now);
        let query = FlowQuery {
            since,
            until: now,
            task_types: engine
                .registry
                .iter()
                .map(|it| it.decl.name.to_owned())
                .collect(),
        };
        let flow = store.flow(&query).await?;
        Ok((now, sample(now, since, &view, flow)))
    })
}

fn sample(now: DbTime, since: DbTime, view: &WorkersView, flow: Flow) -> SampleView {
    let (mut tasks, mut waiting) = (BTreeMap::new(), BTreeMap::new());
    for of in &view.status.tasks {
        *tasks.entry(of.status).or_default() += of.count;
        if of.status.is_unclaimed() {
            *waiting.entry(of.queue.clone()).or_default() += of.count;
        }
    }
    let alive = || {
        view.workers
            .iter()
            .filter(|it| it.state == WorkerState::Alive)
    };
    SampleView {
        at: rfc3339(now),
        millis: u64::try_from(now.after(since).as_millis()).unwrap_or(u64::MAX),
        submitted: flow.submitted,
        ended: flow.ended,
        tasks,
        waiting,
        oldest_due_seconds: view.status.oldest_due_seconds,
        workers_alive: view.status.workers_alive,
        workers_lost: view.status.workers_lost,
        slots: alive()
            .filter(|it| it.paused.is_none())
            .map(|it| u64::from(it.concurrency))
            .sum(),
        slots_busy: alive().map(|it| u64::from(it.running_count)).sum(),
    }
}

/// A figure that is missing until something is parked would make an alarm on it late.
fn with_zeros(engine: &Engine, mut parked: Vec<ParkedCount>) -> Vec<ParkedCount> {
    let known: BTreeSet<&str> = engine.registry.iter().map(|it| it.decl.name).collect();
    let states = TaskStatus::ALL.iter().filter(|it| it.is_parked());
    let all = states.flat_map(|status| known.iter().map(|name| (*status, *name)));
    for (status, name) in all {
        let is_it = |it: &ParkedCount| (it.status, &*it.task_type) == (status, name);
        if !parked.iter().any(is_it) {
            parked.push(ParkedCount {
                status,
                task_type: name.to_owned(),
                count: 0,
                oldest: Duration::ZERO,
            });
        }
    }
    parked
}

/// The breakers of this program's task types, by key, as this process sees them. Without a server for
/// hints each process counts for itself.
pub fn breakers(engine: &Engine) -> BoxFuture<'_, Vec<(String, BreakerState)>> {
    Box::pin(states(engine))
}

/// The age of the oldest event that is not published.
///
/// # Errors
/// When the store does not answer.
pub fn oldest_unpublished(engine: &Engine) -> BoxFuture<'_, Result<Option<Duration>, StoreError>> {
    Box::pin(async move {
        // Asked for nothing else it would cost a walk over all open tasks for nothing.
        if engine.ports.queue.hands_out_tasks() {
            return Ok(None);
        }
        Ok(engine.ports.store.gauges(&[]).await?.oldest_unpublished)
    })
}

/// Whether the store takes writes: a full disk and a standby answer every question. Refreshes the
/// process's row in the worker registry, where it has one; without one the store is only read.
///
/// # Errors
/// When the store does not answer, or cannot be written to.
pub fn check_store(engine: &Engine) -> BoxFuture<'_, Result<(), StoreError>> {
    Box::pin(async move {
        // A task that is nowhere, by the way of every request: lists have connections of their
        // own, which may be busy.
        engine.ports.store.load(TaskId(uuid::Uuid::nil())).await?;
        if !engine.registration.known().parts.is_empty() {
            engine
                .ports
                .store
                .refresh_worker(&worker_registry::current_row(engine).await)
                .await?;
        }
        Ok(())
    })
}

/// Tasks in the lanes of a queue are tasks of the queue.
fn of_queues(tasks: Vec<TaskCount>) -> Vec<TaskCount> {
    let mut summed: Vec<TaskCount> = Vec::with_capacity(tasks.len());
    for mut tasks in tasks {
        tasks.queue = QueueName(tasks.queue).base().0;
        let is_same = |it: &&mut TaskCount| {
            (it.status, &it.queue, &it.labels) == (tasks.status, &tasks.queue, &tasks.labels)
        };
        match summed.iter_mut().find(is_same) {
            Some(same) => same.count += tasks.count,
            None => summed.push(tasks),
        }
    }
    summed.sort_by(|one, two| (one.status, &one.queue).cmp(&(two.status, &two.queue)));
    summed
}

/// Whatever their labels are.
fn by_queue(tasks: &[TaskCount]) -> Vec<TaskCountView> {
    let is_same =
        |one: &TaskCount, two: &TaskCount| (one.status, &one.queue) == (two.status, &two.queue);
    tasks
        .chunk_by(is_same)
        .map(|same| TaskCountView {
            status: same[0].status,
            queue: same[0].queue.clone(),
            count: same.iter().map(|tasks| tasks.count).sum(),
        })
        .collect()
}

fn fetch_error(error: FetchError) -> FetchErrorView {
    let (consumer, denied_subject) = error.consumer.map(|it| (it.name, it.subject)).unzip();
    FetchErrorView {
        queue: error.queue.0,
        message: error.message,
        consumer,
        denied_subject,
    }
}

fn views(found: Workers, paused: &PausedWorkers) -> Vec<WorkerView> {
    let now = found.now;
    let view = |seen: WorkerSeen| {
        let (role, state) = (seen.role().to_owned(), seen.state(now));
        let (started_at, stopped_at) = (seen.started_at(), seen.stopped_at());
        let paused = paused.of(&seen).map(Pause::view);
        let WorkerSeen { row, seen_at } = seen;
        WorkerView {
            id: row.id,
            role,
            state,
            machine: row.machine,
            program: row.program,
            paused,
            queues: row.queues.into_iter().map(|queue| queue.0).collect(),
            task_types: row
                .types
                .into_iter()
                .map(|of| WorkerType {
                    name: of.name,
                    version: of.version,
                    definition: of.definition,
                })
                .collect(),
            concurrency: row.concurrency,
            running_count: row.running_count,
            heavy: row.heavy,
            heavy_count: row.heavy_count,
            permits: row.permits,
            abandoned_count: row.abandoned_count,
            memory_bytes: row.activity.memory,
            running: row.running,
            started_at: rfc3339(started_at),
            seen_at: rfc3339(seen_at),
            stopped_at: stopped_at.map(rfc3339),
            kept: row.kept.map(|kept| KeptView {
                results: kept.results,
                bytes: kept.bytes,
                oldest_seconds: kept.oldest.map(|age| age.as_secs()),
            }),
            fetch_errors: row.fetch_errors.into_iter().map(fetch_error).collect(),
            last_pass: row.passed.map(|passed| PassView {
                seconds_ago: passed.ago.as_secs(),
                counts: passed.counts,
            }),
        }
    };
    found.rows.into_iter().map(view).collect()
}
