//! Schedules as reconcilers carry them out: each due time once, whatever becomes of the
//! reconcilers; what the policies do; what people ask of them.

mod by_people;
mod declared;
mod moves;
mod once_each;
mod policies;

use counterstep_adapters::embedded::{self, EmbeddedPaths};
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::{Host, ScheduleSpec, TaskId, TaskStatus, Tenant};
use counterstep_kernel::ports::{ScheduleRow, Store, TaskQuery};
use counterstep_kernel::schedule;
use counterstep_kernel::turn::turn;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_reconciler::{ReconcilerSettings, Report, pass};
use counterstep_steps::times::DbTime;
use counterstep_steps::{CancelToken, Registry, StepContext, StepResult, UploadMany, UploadedFile};
use counterstep_testkit::TestClock;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct TickRequest {
    text: String,
}

struct Tick;

#[distributed_task(name = "Tick", queue = "ticks")]
impl Tick {
    type Request = TickRequest;
    type Response = usize;

    #[step(1, host = "worker", no_undo = "says only what it was told")]
    async fn say(_ctx: &StepContext, req: &TickRequest) -> StepResult<usize> {
        Ok(req.text.len())
    }

    fn respond(say: &usize) -> usize {
        *say
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct KeepRequest {
    files: Vec<UploadedFile>,
}

struct Keep;

#[distributed_task(name = "Keep", queue = "ticks")]
impl Keep {
    type Request = KeepRequest;
    type Response = usize;

    #[step(1, host = "api")]
    fn upload(req: &KeepRequest) -> UploadMany {
        UploadMany::to("kept", &req.files)
    }

    fn respond(upload: &counterstep_steps::StoredFiles) -> usize {
        upload.0.len()
    }
}

const SECOND: i64 = 1_000_000;

fn types() -> Registry {
    Registry::new().with::<Tick>().with::<Keep>()
}

fn tenant() -> Tenant {
    Tenant::default()
}

/// An engine with adapters of its own.
async fn engine(
    folder: &Path,
    registry: Registry,
    (postgres, clock): (Option<&str>, &TestClock),
) -> Engine {
    let paths = EmbeddedPaths {
        database: folder.join("tasks.db"),
        objects: folder.join("objects"),
        scratch: folder.join("scratch"),
    };
    let mut ports = embedded::open(paths, clock.embedded())
        .await
        .expect("the adapters open");
    if let Some(url) = postgres {
        let options = PostgresOptions {
            connections: 2,
            ..PostgresOptions::default()
        };
        ports.store = PostgresStore::open(url, options)
            .await
            .expect("the store opens")
            .into();
    }
    Engine::new(
        ports,
        Arc::new(registry),
        EngineSettings::default(),
        "reconciler",
    )
}

async fn alone(registry: Registry) -> (Engine, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(folder.path(), registry, (None, &TestClock::new())).await;
    (engine, folder)
}

fn hourly() -> ScheduleSpec {
    ScheduleSpec {
        cron: Some("0 * * * *".to_owned()),
        ..ScheduleSpec::of("Tick")
    }
}

async fn row(engine: &Engine, name: &str) -> ScheduleRow {
    schedule::get(engine, &tenant(), name)
        .await
        .expect("the schedule")
        .row
}

/// Makes a schedule due since `seconds` seconds ago.
async fn make_due(engine: &Engine, name: &str, seconds: i64) {
    let kept = schedule::get(engine, &tenant(), name)
        .await
        .expect("the schedule");
    let mut row = kept.row;
    row.next_due_at = Some(DbTime((kept.now.0 / SECOND - seconds) * SECOND));
    row.rev = row.rev.next();
    assert!(
        engine
            .ports
            .store
            .put_schedule(&row)
            .await
            .expect("the store answers")
    );
}

async fn overdue(engine: &Engine, name: &str, spec: ScheduleSpec, seconds: i64) {
    schedule::set(engine, &tenant(), name, spec, "kim")
        .await
        .expect("it is set");
    make_due(engine, name, seconds).await;
}

async fn one_pass(engine: &Engine) -> Report {
    let report = pass(engine, &ReconcilerSettings::default())
        .await
        .expect("a pass");
    assert_eq!(report.failed, Vec::<String>::new());
    // No other process relays what was submitted.
    Report {
        relayed: 0,
        ..report
    }
}

async fn tasks(store: &Store) -> Vec<TaskId> {
    let query = TaskQuery {
        limit: 10_000,
        ..TaskQuery::default()
    };
    store
        .list(&query)
        .await
        .expect("a list")
        .lines
        .into_iter()
        .map(|line| line.task)
        .collect()
}

async fn finish(engine: &Engine, task: TaskId) {
    turn(engine, Host::Worker, task, &CancelToken::new()).await;
    let record = engine
        .ports
        .store
        .load(task)
        .await
        .expect("the store answers")
        .expect("the task");
    assert_eq!(record.task.status, TaskStatus::Completed);
}
