//! Schedules as reconcilers carry them out: each due time once, whatever becomes of the
//! reconcilers; what the policies do; what people ask of them.

use counterstep_adapters::embedded::{self, EmbeddedOptions, EmbeddedPaths};
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::{Host, Misfire, Overlap, ScheduleSpec, TaskId, TaskStatus, Tenant};
use counterstep_kernel::documents::TypedDocuments;
use counterstep_kernel::ports::{ScheduleRow, Store, TaskQuery};
use counterstep_kernel::record::DbTime;
use counterstep_kernel::schedule::ScheduleError;
use counterstep_kernel::times::rfc3339;
use counterstep_kernel::turn::turn;
use counterstep_kernel::{
    CancelToken, Engine, EngineSettings, Registry, Schedule, StepContext, StepResult, UploadMany,
    UploadedFile,
};
use counterstep_macros::distributed_task;
use counterstep_reconciler::{ReconcilerSettings, Report, pass, plan, serve};
use counterstep_testkit::seed::seeded;
use counterstep_testkit::servers::shared_postgres;
use counterstep_testkit::site::eventually;
use rand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;

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

    fn respond(upload: &counterstep_kernel::StoredFiles) -> usize {
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
async fn engine(folder: &Path, registry: Registry, postgres: Option<&str>) -> Engine {
    let paths = EmbeddedPaths {
        database: folder.join("tasks.db"),
        objects: folder.join("objects"),
        scratch: folder.join("scratch"),
    };
    let mut ports = embedded::open(paths, EmbeddedOptions::default())
        .await
        .expect("the adapters open");
    if let Some(url) = postgres {
        let options = PostgresOptions {
            connections: 2,
            ..PostgresOptions::default()
        };
        ports.store = Arc::new(
            PostgresStore::open(url, options)
                .await
                .expect("the store opens"),
        );
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
    (engine(folder.path(), registry, None).await, folder)
}

fn hourly() -> ScheduleSpec {
    ScheduleSpec {
        cron: Some("0 * * * *".to_owned()),
        ..ScheduleSpec::of("Tick")
    }
}

async fn row(engine: &Engine, name: &str) -> ScheduleRow {
    engine
        .schedule(&tenant(), name)
        .await
        .expect("the schedule")
        .row
}

/// Makes a schedule due since so many seconds ago.
async fn make_due(engine: &Engine, name: &str, seconds: i64) {
    let kept = engine
        .schedule(&tenant(), name)
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
    engine
        .set_schedule(&tenant(), name, spec)
        .await
        .expect("it is set");
    make_due(engine, name, seconds).await;
}

async fn one_pass(engine: &Engine) -> Report {
    let report = pass(engine, &ReconcilerSettings::default())
        .await
        .expect("a pass");
    assert_eq!(report.failed, Vec::<String>::new());
    // Nobody else relays what was submitted.
    Report {
        relayed: 0,
        ..report
    }
}

async fn tasks(store: &dyn Store) -> Vec<TaskId> {
    let query = TaskQuery {
        limit: 10_000,
        ..TaskQuery::default()
    };
    store
        .list(&query)
        .await
        .expect("a list")
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

/// The due time that the audit of a task names.
async fn due_of(store: &dyn Store, task: TaskId) -> String {
    let history = store.history(task).await.expect("a history");
    let scheduled = &history.audit[0].entry.details["scheduled"];
    scheduled["due"].as_str().expect("a due time").to_owned()
}

/// How many due times the test waits for; each comes a second after the other.
const DUE_TIMES: i64 = 20;

/// So often a reconciler is aborted, about five times a second: nearly to the last due time, and
/// then no more.
const ABORTS: usize = 80;

/// Three reconcilers, aborted wherever they are and started again, and a schedule for each second.
async fn each_due_time_fires_once(folder: &Path, postgres: Option<&str>) {
    let watcher = engine(folder, types(), postgres).await;
    let each_second = ScheduleSpec {
        cron: Some("* * * * * *".to_owned()),
        misfire: Misfire::CatchUp,
        overlap: Overlap::Allow,
        ..ScheduleSpec::of("Tick")
    };
    let set = watcher
        .set_schedule(&tenant(), "each-second", each_second)
        .await
        .expect("it is set");
    let first = set.row.next_due_at.expect("a due time");
    let last = DbTime(first.0 + (DUE_TIMES - 1) * SECOND);

    let start = |engine: Engine| -> JoinHandle<()> {
        let settings = ReconcilerSettings {
            every: Duration::from_secs(1),
            ..ReconcilerSettings::default()
        };
        tokio::spawn(serve(engine, settings, CancelToken::new()))
    };
    let mut reconcilers = Vec::new();
    for _ in 0..3 {
        reconcilers.push(start(engine(folder, types(), postgres).await));
    }
    let mut chance = seeded();
    for _ in 0..ABORTS {
        // Not a wait for anything: it chooses the moment, between passes and in the middle of them.
        tokio::time::sleep(Duration::from_millis(chance.random_range(20..400))).await;
        let victim = chance.random_range(0..reconcilers.len());
        reconcilers[victim].abort();
        reconcilers[victim] = start(engine(folder, types(), postgres).await);
    }
    eventually("the last due time", || async {
        (row(&watcher, "each-second").await.last_due_at >= Some(last)).then_some(())
    })
    .await;
    let paused = watcher
        .pause_schedule(&tenant(), "each-second", true)
        .await
        .expect("it is paused")
        .row;
    for reconciler in reconcilers {
        reconciler.abort();
        drop(reconciler.await);
    }

    let store = &*watcher.ports.store;
    let mut fired = Vec::new();
    for task in tasks(store).await {
        fired.push(due_of(store, task).await);
    }
    fired.sort();
    let end = paused.last_due_at.expect("it has fired").0;
    let expected: Vec<_> = (0..=(end - first.0) / SECOND)
        .map(|n| rfc3339(DbTime(first.0 + n * SECOND)))
        .collect();
    assert!(expected.len() >= usize::try_from(DUE_TIMES).expect("small"));
    assert_eq!(fired, expected, "one task for each due time");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_three_reconcilers_on_one_file_each_due_time_fires_once() {
    let folder = tempfile::tempdir().expect("a folder");
    each_due_time_fires_once(folder.path(), None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_three_reconcilers_on_one_server_each_due_time_fires_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = shared_postgres().database();
    PostgresStore::migrate(&url, &PostgresOptions::default())
        .await
        .expect("the schema");
    each_due_time_fires_once(folder.path(), Some(&url)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declared_schedule_is_taken_over_and_its_pause_outlives_a_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let declare = |cron: &str| {
        let nightly =
            Schedule::cron("nightly", cron, "Europe/Berlin").request(json!({"text": "good night"}));
        types().schedule::<Tick>(nightly)
    };
    let first = engine(folder.path(), declare("0 3 * * *"), None).await;
    let planned = plan(&first, &ReconcilerSettings::default())
        .await
        .expect("a plan")
        .to_string();
    assert_eq!(
        planned,
        "take over schedule nightly: the program declares it so\n"
    );
    assert_eq!(one_pass(&first).await.declared, 1);
    assert_eq!(
        one_pass(&first).await,
        Report::default(),
        "nothing has changed"
    );
    first
        .pause_schedule(&tenant(), "nightly", true)
        .await
        .expect("it is paused");
    for refused in [
        first
            .set_schedule(&tenant(), "nightly", hourly())
            .await
            .map(drop),
        first.delete_schedule(&tenant(), "nightly").await,
    ] {
        assert!(
            matches!(refused, Err(ScheduleError::Declared)),
            "{refused:?}"
        );
    }

    let second = engine(folder.path(), declare("0 4 * * *"), None).await;
    assert_eq!(one_pass(&second).await.declared, 1);
    let changed = row(&second, "nightly").await;
    assert_eq!(
        (changed.spec.cron.as_deref(), changed.paused),
        (Some("0 4 * * *"), true)
    );
    assert_eq!(changed.spec.request, json!({"text": "good night"}));

    // A program that does not declare it leaves it alone, and may delete it.
    second
        .pause_schedule(&tenant(), "nightly", false)
        .await
        .expect("it goes on");
    make_due(&second, "nightly", 5).await;
    let other = engine(folder.path(), types(), None).await;
    assert_eq!(one_pass(&other).await, Report::default());
    assert_eq!(one_pass(&second).await.fired, 1);
    other
        .delete_schedule(&tenant(), "nightly")
        .await
        .expect("it is deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_the_misfire_policy_says_what_fires() {
    let (engine, _folder) = alone(types()).await;
    let yearly = |misfire| ScheduleSpec {
        cron: Some("0 0 1 1 *".to_owned()),
        overlap: Overlap::Allow,
        grace: "1s".to_owned(),
        catch_up_limit: 3,
        misfire,
        ..ScheduleSpec::of("Tick")
    };
    let four_years = 4 * 366 * 24 * 3600;
    for (name, misfire, fired, passed_over) in [
        ("once", Misfire::FireOnce, 1, 0),
        ("each", Misfire::CatchUp, 3, 0),
        ("none", Misfire::Skip, 0, 1),
    ] {
        overdue(&engine, name, yearly(misfire), four_years).await;
        let report = one_pass(&engine).await;
        assert_eq!(
            (report.fired, report.passed_over),
            (fired, passed_over),
            "{name}"
        );
        let kept = engine
            .schedule(&tenant(), name)
            .await
            .expect("the schedule");
        assert!(
            kept.row.next_due_at > Some(kept.now),
            "{name}: {:?}",
            kept.row
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_task_runs_the_overlap_policy_says_what_fires() {
    let (engine, _folder) = alone(types()).await;
    let yearly = |overlap| ScheduleSpec {
        cron: Some("0 0 1 1 *".to_owned()),
        overlap,
        ..ScheduleSpec::of("Tick")
    };
    for (overlap, fired, passed_over) in [
        (Overlap::Skip, 0, 1),
        (Overlap::Queue, 0, 0),
        (Overlap::Allow, 1, 0),
    ] {
        let name = overlap.as_str();
        overdue(&engine, name, yearly(overlap), 0).await;
        assert_eq!(one_pass(&engine).await.fired, 1, "{name}");
        let running = row(&engine, name).await.last_task.expect("a task");
        // The next due time comes while it runs.
        make_due(&engine, name, 0).await;
        let report = one_pass(&engine).await;
        assert_eq!(
            (report.fired, report.passed_over),
            (fired, passed_over),
            "{name}"
        );
        finish(&engine, running).await;
        let report = one_pass(&engine).await;
        assert_eq!(
            report.fired,
            usize::from(overlap == Overlap::Queue),
            "{name}: only what waits is still due"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_what_is_due_and_fires_nothing() {
    let (engine, _folder) = alone(types()).await;
    overdue(
        &engine,
        "yearly",
        ScheduleSpec {
            cron: Some("@yearly".to_owned()),
            ..hourly()
        },
        0,
    )
    .await;
    let due = rfc3339(
        row(&engine, "yearly")
            .await
            .next_due_at
            .expect("a due time"),
    );
    let planned = plan(&engine, &ReconcilerSettings::default())
        .await
        .expect("a plan")
        .to_string();
    assert_eq!(
        planned,
        format!("fire schedule yearly: a Tick was due {due}\n")
    );
    assert_eq!(tasks(&*engine.ports.store).await, []);
    let report = one_pass(&engine).await;
    assert!(
        report
            .to_string()
            .ends_with("schedules: 1 fired, 0 passed over, 0 taken over"),
        "{report}"
    );
    let task = row(&engine, "yearly").await.last_task.expect("a task");
    let first = &engine
        .ports
        .store
        .history(task)
        .await
        .expect("a history")
        .audit[0];
    assert_eq!(
        first.entry.details,
        json!({"scheduled": {"schedule": "yearly", "due": due}})
    );
    assert_eq!(first.entry.actor, engine.id.as_ref());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_schedule_fires_by_hand_only_and_misses_nothing() {
    let (engine, _folder) = alone(types()).await;
    overdue(&engine, "nightly", hourly(), 10).await;
    engine
        .pause_schedule(&tenant(), "nightly", true)
        .await
        .expect("it is paused");
    assert_eq!(one_pass(&engine).await, Report::default());
    let task = engine
        .run_schedule(&tenant(), "nightly", "client:kim")
        .await
        .expect("it runs")
        .task_id;
    let first = &engine
        .ports
        .store
        .history(task)
        .await
        .expect("a history")
        .audit[0];
    assert_eq!(
        first.entry.details,
        json!({"scheduled": {"schedule": "nightly", "due": null}})
    );
    assert_eq!(first.entry.actor, "client:kim");
    let busy = engine.run_schedule(&tenant(), "nightly", "client").await;
    assert!(
        matches!(busy, Err(ScheduleError::Busy(last)) if last == task),
        "{busy:?}"
    );
    finish(&engine, task).await;
    engine
        .run_schedule(&tenant(), "nightly", "client")
        .await
        .expect("it has come to rest");

    let resumed = engine
        .pause_schedule(&tenant(), "nightly", false)
        .await
        .expect("it goes on");
    assert!(
        resumed.row.next_due_at > Some(resumed.now),
        "what was due meanwhile was not wanted"
    );
    assert_eq!(resumed.row.last_due_at, None);
    assert_eq!(resumed.upcoming(3).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_point_of_time_fires_once_and_the_same_words_change_nothing() {
    let (engine, _folder) = alone(types()).await;
    let mut once = ScheduleSpec {
        run_at: Some("2999-01-01T00:00:00Z".to_owned()),
        ..ScheduleSpec::of("tick")
    };
    let made = engine
        .set_schedule(&tenant(), "party", once.clone())
        .await
        .expect("it is set");
    assert!(made.is_new && made.row.spec.task_type == "Tick");
    let again = engine
        .set_schedule(&tenant(), "party", once.clone())
        .await
        .expect("it is set");
    assert_eq!((again.is_new, again.row), (false, made.row));
    make_due(&engine, "party", 0).await;
    assert_eq!(one_pass(&engine).await.fired, 1);
    once.run_at = Some("2001-01-01T00:00:00Z".to_owned());
    let past = engine.set_schedule(&tenant(), "party", once).await;
    assert!(
        matches!(&past, Err(ScheduleError::Invalid(error)) if error.pointer == "run_at"),
        "{past:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_scheduled_is_refused_with_the_reason() {
    let (engine, _folder) = alone(types()).await;
    for (name, spec, words) in [
        (
            "x",
            ScheduleSpec {
                task_type: "Keep".to_owned(),
                ..hourly()
            },
            "begin with an upload",
        ),
        (
            "x",
            ScheduleSpec {
                task_type: "Other".to_owned(),
                ..hourly()
            },
            "no task type `Other`",
        ),
        (
            "x",
            ScheduleSpec {
                request: json!({"txt": "?"}),
                ..hourly()
            },
            "unknown field",
        ),
        ("a/b", hourly(), "1 to 100 characters"),
        (
            "x",
            ScheduleSpec {
                cron: Some("0 25 * * *".to_owned()),
                ..hourly()
            },
            "the hour is `25`",
        ),
    ] {
        let refused = engine
            .set_schedule(&tenant(), name, spec)
            .await
            .expect_err(words)
            .to_string();
        assert!(refused.contains(words), "{refused}");
    }
    let gone = engine.run_schedule(&tenant(), "nobody", "client").await;
    assert!(matches!(gone, Err(ScheduleError::Gone)), "{gone:?}");
    for (task_type, schedule, words) in [
        (
            "Other",
            Schedule::once("x", "2999-01-01T00:00:00Z"),
            "task type `Other` is not registered",
        ),
        ("Tick", Schedule::cron("x", "* * *", "UTC"), "has 3"),
        (
            "Tick",
            Schedule::cron("", "* * * * *", "UTC"),
            "1 to 100 characters",
        ),
        (
            "Keep",
            Schedule::cron("x", "* * * * *", "UTC"),
            "begin with an upload",
        ),
        (
            "Tick",
            Schedule::cron("x", "* * * * *", "UTC").request(json!({"text": 1})),
            "request.text",
        ),
    ] {
        let mistake = types()
            .try_schedule(task_type, schedule)
            .expect_err(words)
            .to_string();
        assert!(mistake.contains(words), "{mistake}");
    }
    let twice = types().schedule::<Tick>(Schedule::cron("x", "@daily", "UTC"));
    assert!(
        twice
            .try_schedule("Tick", Schedule::cron("x", "@hourly", "UTC"))
            .is_err()
    );
}

fn yearly() -> ScheduleSpec {
    ScheduleSpec {
        cron: Some("@yearly".to_owned()),
        ..hourly()
    }
}

/// Makes a schedule whose request no task type takes: each time it is due, its submission fails.
async fn overdue_and_failing(engine: &Engine, name: &str, seconds: i64) {
    overdue(engine, name, yearly(), seconds).await;
    let mut failing = row(engine, name).await;
    failing.spec.request = json!({"txt": "?"});
    failing.rev = failing.rev.next();
    assert!(
        engine
            .ports
            .store
            .put_schedule(&failing)
            .await
            .expect("the store answers")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn schedules_that_wait_or_fail_do_not_starve_those_behind_them() {
    let (engine, _folder) = alone(types()).await;
    let queue = ScheduleSpec {
        overlap: Overlap::Queue,
        ..yearly()
    };
    for name in ["waits-1", "waits-2", "waits-3"] {
        overdue(&engine, name, queue.clone(), 0).await;
        assert_eq!(one_pass(&engine).await.fired, 1, "{name}");
        make_due(&engine, name, 300).await;
    }
    for name in ["fails-1", "fails-2", "fails-3"] {
        overdue_and_failing(&engine, name, 200).await;
    }
    overdue(&engine, "ready-1", yearly(), 50).await;
    overdue(&engine, "ready-2", yearly(), 40).await;
    overdue(&engine, "ready-3", yearly(), 30).await;

    let settings = ReconcilerSettings {
        limit: 2,
        ..ReconcilerSettings::default()
    };
    let planned = plan(&engine, &settings).await.expect("a plan").to_string();
    assert!(planned.contains("leave schedule waits-3"), "{planned}");
    // All reconcilers of a cluster begin at the front, as one that passes once does: nothing is
    // remembered.
    for (fired, ready) in [(2, "ready-2"), (1, "ready-3")] {
        let report = pass(&engine, &settings).await.expect("a pass");
        assert_eq!((report.fired, report.failed.len()), (fired, 3), "{report}");
        assert!(row(&engine, ready).await.last_task.is_some(), "{ready}");
    }
}
