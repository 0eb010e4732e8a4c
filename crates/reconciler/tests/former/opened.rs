//! A fixture is opened, read, found whole, and its tasks go on to their ends.

use crate::types::{World, types};
use crate::written::TENANT;
use crate::{Contents, engine, fixtures, go, load, ports};
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::{Labels, TaskId, TaskStatus, Tenant};
use counterstep_kernel::access::api_keys::ApiKey;
use counterstep_kernel::admission::disable::{TypeDecision, enable_type};
use counterstep_kernel::admission::limits::limits;
use counterstep_kernel::admission::paused_queues::{queues, resume_queue};
use counterstep_kernel::audit::admin_audit;
use counterstep_kernel::bulk;
use counterstep_kernel::client::{self, Submission, UploadSession};
use counterstep_kernel::journal::trail::Trail;
use counterstep_kernel::operator::{self, Retrial, surroundings, why_among};
use counterstep_kernel::ports::{LoadFor, OutboxOp, PurgeOp, TaskQuery};
use counterstep_kernel::{Engine, dead_letters::poison, schedule, status::task_log, webhooks};
use counterstep_reconciler::audit::Scope;
use counterstep_reconciler::fsck::fsck;
use counterstep_reconciler::{ReconcilerSettings, pass};
use counterstep_steps::{CancelReason, CancelToken};
use counterstep_testkit::TestClock;
use counterstep_testkit::servers::shared_postgres;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

const KIM: &str = "operator:kim";
const NOTE: &str = "it goes on";

/// How often time passes until every task has ended.
const ROUNDS: usize = 100;

fn tenant() -> Tenant {
    Tenant(TENANT.to_owned())
}

/// Unpacks a fixture, and gives what it says of itself.
fn unpack(name: &str, folder: &Path) -> Contents {
    let file = std::fs::File::open(fixtures().join(name)).expect("the fixture");
    let mut packed = zip::ZipArchive::new(file).expect("a ZIP file");
    packed.extract(folder).expect("its files");
    let contents = std::fs::read(folder.join("contents.json")).expect("its contents");
    serde_json::from_slice(&contents).expect("JSON")
}

/// A minute after the fixture was complete.
fn clock_of(contents: &Contents) -> TestClock {
    let at = u64::try_from(contents.at).expect("a time after 1970");
    TestClock::at(Duration::from_micros(at) + Duration::from_secs(60))
}

async fn assert_whole(engine: &Engine, tasks: u64) {
    let (store, objects) = (&engine.ports.store, &*engine.ports.objects);
    let mut found = Vec::new();
    let mut note = |finding| found.push(finding);
    let checked = fsck(
        store,
        &engine.registry,
        Some(objects),
        &Scope::default(),
        &mut note,
    )
    .await
    .expect("the stores answer");
    assert!(found.is_empty(), "{found:#?}");
    assert!(checked.verified.tasks >= tasks, "{checked:?}");
    assert!(checked.objects >= 4, "the files of two tasks: {checked:?}");
    assert_eq!((checked.newer, checked.not_judged), (0, 0));
}

/// Everything that a client or an operator reads of a task.
async fn read(engine: &Engine, name: &str, task: TaskId) {
    let store = &engine.ports.store;
    let whole = store.load_for(task, LoadFor::Run).await;
    let record = whole.expect("nothing is damaged").expect("the task");
    assert_eq!(record.task.tenant, tenant());
    let labels = &record.task.labels;
    assert!(
        labels.iter().any(|label| label == ("region", "eu")),
        "{name}: {labels:?}"
    );
    let history = store.history(task).await.expect("a history");
    let last = &history.audit.last().expect("an entry").entry;
    assert_eq!(last.to, record.task.status, "{name}");
    let (mut trail, mut entries) = (Trail::of(task), 0);
    loop {
        let page = trail.read(store).await.expect("a page");
        entries += page.entries.len();
        if page.is_last {
            break;
        }
    }
    assert_eq!(entries, history.audit.len(), "{name}");
    assert_eq!(trail.record().task.rev, record.task.rev, "{name}");
    let log = task_log::read(store, task, None, usize::MAX).await;
    assert_eq!(log.expect("a log").unreadable, 0, "{name}");
    let around = surroundings(engine, &record).await;
    let why = why_among(&engine.registry, &record, &around);
    assert_eq!(why.status, record.task.status, "{name}");
    assert!(!why.because.is_empty(), "{name}: {why:?}");
}

/// What is beside the tasks.
async fn read_beside(engine: &Engine, contents: &Contents) {
    let store = &engine.ports.store;
    for (name, paused) in [("hourly", false), ("paused", true)] {
        let state = schedule::get(engine, &tenant(), name).await;
        assert_eq!(state.expect("the schedule").row.paused, paused, "{name}");
    }
    let rows = queues(engine).await.expect("the queues");
    let paused = rows.iter().filter(|row| row.paused.is_some());
    let paused: Vec<_> = paused.map(|row| row.name.0.as_str()).collect();
    assert_eq!(paused, ["errands"]);
    let rows = limits(engine).await.expect("the limits");
    let rarely = rows.iter().find(|row| row.name == "rarely");
    let set = rarely.expect("the limit").set.as_ref().expect("it is set");
    assert_eq!(set.rate.expect("a rate").starts, 2);
    let types = store.types().await.expect("the types").rows;
    let sale = types
        .iter()
        .find(|row| row.name == "Sale")
        .expect("its row");
    assert!(sale.disabled.is_some());
    let key = ApiKey::parse(&contents.api_key).expect("a key");
    let found = store.api_key(key.id()).await.expect("an answer");
    assert!(key.is_valid(&found.rows[0], found.now));
    assert_eq!(poison::list(store).await.expect("a list").len(), 1);
    let bulk = bulk::list(store, &tenant()).await.expect("a list");
    assert_eq!(bulk.len(), 1);
    let told = webhooks::list(store, &tenant(), contents.tasks["completed"].id).await;
    assert_eq!(told.expect("a list").len(), 1);
    assert_eq!(store.workers().await.expect("a list").rows.len(), 1);
    let changes = admin_audit::page(store, 0, 100).await.expect("the changes");
    let events: Vec<_> = changes
        .iter()
        .map(|entry| entry.says().expect("what has changed").event)
        .collect();
    for event in [
        "schedule_paused",
        "limit_set",
        "queue_paused",
        "bulk_started",
        "key_made",
    ] {
        assert!(events.iter().any(|it| it == event), "{events:?}");
    }
    let buried = PurgeOp::OldestTombstones { limit: 10 };
    assert_eq!(store.purge(&buried).await.expect("a list").len(), 1);
}

/// The events of the changes are there, and are published.
async fn publish(engine: &Engine) {
    let take = OutboxOp::Take {
        older_than: Duration::ZERO,
        limit: 10_000,
    };
    let rows = engine.ports.store.outbox(take).await.expect("the outbox");
    assert!(rows.len() > 50, "{}", rows.len());
    assert!(rows.iter().all(|row| !row.events.is_empty()));
    let ids = rows.iter().map(|row| row.id).collect();
    let published = engine.ports.store.outbox(OutboxOp::Published(ids)).await;
    published.expect("they are published");
}

/// A repetition of a request gets the first one's task.
async fn repeat(engine: &Engine, name: &str, task: TaskId) {
    let submission = Submission {
        tenant: tenant(),
        actor: "client:anna".to_owned(),
        key: Some(name.to_owned()),
        traceparent: None,
        webhook: None,
        labels: Labels::default(),
    };
    let task_type = engine.registry.newest("Order").expect("the type");
    let session = UploadSession::begin(engine, task_type, submission).await;
    let mut session = session.expect("a session");
    let body = json!({"customer": name, "trouble": "none"});
    session.body(body).expect("a body");
    let submitted = session.submit().await.expect("an answer");
    assert_eq!(submitted.answer.task_id, task);
}

/// What people do so that all goes on.
async fn decide(engine: &Engine, contents: &Contents) {
    let (actor, note) = (KIM, NOTE);
    let decision = TypeDecision {
        actor,
        name: None,
        note,
    };
    enable_type(engine, "Sale", decision)
        .await
        .expect("it is enabled");
    let rows = queues(engine).await.expect("the queues");
    let paused = rows.into_iter().find(|row| row.paused.is_some());
    let queue = paused.expect("a paused queue").name;
    assert!(
        resume_queue(engine, &queue, KIM, NOTE)
            .await
            .expect("it is resumed")
    );
    for name in ["dead letter", "compensation failed"] {
        let retrial = Retrial {
            direction: None,
            edit: None,
            actor: actor.to_owned(),
            note: note.to_owned(),
            bulk: None,
        };
        let retried = operator::retry(engine, contents.tasks[name].id, retrial).await;
        retried.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let asked = contents.tasks["waits for a signal"].id;
    let approval = json!({"by": "kim"});
    let sent = client::signal(engine, asked, "approval", approval, "client:kim").await;
    sent.expect("the signal is taken");
}

/// All tasks, also those that others of them have submitted and that schedules have.
async fn all_tasks(engine: &Engine) -> Vec<TaskId> {
    let query = TaskQuery {
        limit: 10_000,
        ..TaskQuery::default()
    };
    let page = engine.ports.store.list(&query).await.expect("a list");
    page.lines.iter().map(|line| line.task).collect()
}

/// Where each of the tasks ends.
fn end_of(name: &str) -> TaskStatus {
    match name {
        "failed" | "compensating" | "compensation failed" | "undo runs" | "undone by hand" => {
            TaskStatus::Failed
        }
        "cancelled" => TaskStatus::Cancelled,
        "resolved" => TaskStatus::Resolved,
        _ => TaskStatus::Completed,
    }
}

async fn go_on(engine: &Engine, clock: &TestClock, contents: &Contents) {
    let shutdown = CancelToken::new();
    let bulk = tokio::spawn(bulk::serve(engine.clone(), shutdown.clone()));
    let settings = ReconcilerSettings::default();
    for round in 0.. {
        let mut open = Vec::new();
        for task in all_tasks(engine).await {
            if !go(engine, task).await.task.status.is_at_rest() {
                open.push(task);
            }
        }
        let report = pass(engine, &settings).await.expect("a pass");
        assert_eq!(report.failed, Vec::<String>::new());
        let mut left = Vec::new();
        for (name, task) in &contents.tasks {
            let row = load(engine, task.id).await.task;
            if row.status != end_of(name) {
                left.push((name, row.status, row.waiting));
            }
        }
        if left.is_empty() && open.is_empty() {
            break;
        }
        assert!(round < ROUNDS, "{left:?} {open:?}");
        clock.advance("30m");
    }
    shutdown.cancel(CancelReason::Shutdown);
    bulk.await.expect("it ends");
}

async fn is_read_and_goes_on(
    folder: &Path,
    postgres: Option<&str>,
    contents: &Contents,
    clock: TestClock,
) {
    let ports = ports(folder, postgres, &clock).await;
    let engine = engine(&ports, types(&World::mended()), false).await;
    for (name, task) in &contents.tasks {
        let row = load(&engine, task.id).await.task;
        assert_eq!(
            (row.status, row.waiting),
            (task.status, task.waiting),
            "{name}"
        );
        read(&engine, name, task.id).await;
    }
    let tasks = contents.tasks.len() as u64;
    assert_whole(&engine, tasks).await;
    read_beside(&engine, contents).await;
    publish(&engine).await;
    repeat(&engine, "completed", contents.tasks["completed"].id).await;

    decide(&engine, contents).await;
    go_on(&engine, &clock, contents).await;
    for (name, task) in &contents.tasks {
        read(&engine, name, task.id).await;
    }
    assert_whole(&engine, tasks).await;
    let fired = schedule::get(&engine, &tenant(), "hourly").await;
    assert!(fired.expect("the schedule").row.last_due_at.is_some());
    // The tombstone goes with the last object of its task.
    let buried = PurgeOp::OldestTombstones { limit: 10 };
    assert_eq!(engine.ports.store.purge(&buried).await.expect("a list"), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_former_commit_is_read_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let contents = unpack("sqlite.zip", folder.path());
    let clock = clock_of(&contents);
    is_read_and_goes_on(folder.path(), None, &contents, clock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_database_of_a_former_commit_is_read_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let contents = unpack("postgres.zip", folder.path());
    let clock = clock_of(&contents);
    let url = shared_postgres().database();
    let dump = std::fs::read_to_string(folder.path().join("tasks.sql")).expect("the dump");
    shared_postgres()
        .run_sql(&url, &dump)
        .expect("it is restored");
    PostgresStore::migrate(&url, &PostgresOptions::default())
        .await
        .expect("the schema is brought up to date");
    clock.drive_postgres(&url);
    is_read_and_goes_on(folder.path(), Some(&url), &contents, clock).await;
}
