//! Requests that come to nothing, or that are repeated while the process that received them sleeps:
//! what is stored goes with them and only with them.

use super::lost_replies::{Parcel, Stage};
use super::{database, open, options, raw, waiting};
use crate::suite::changes::new_task;
use counterstep_contracts::workers::WorkerState;
use counterstep_contracts::{FileName, Labels, TaskStatus, Tenant};
use counterstep_kernel::client::{Submission, SubmitError, UploadSession};
use counterstep_kernel::ports::Ports;
use counterstep_kernel::workers::registration::Part;
use counterstep_kernel::workers::worker_registry;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_steps::Registry;
use counterstep_testkit::TestClock;
use counterstep_testkit::servers::{Proxy, is_commit, shared_postgres};
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

async fn stage() -> Stage {
    Stage::of(Registry::new().with::<Parcel>()).await
}

async fn begun(engine: &Engine, key: Option<&str>) -> UploadSession {
    let task_type = *engine.registry.iter().next().expect("a task type");
    let submission = Submission {
        tenant: Tenant::default(),
        actor: "client".to_owned(),
        key: key.map(str::to_owned),
        traceparent: None,
        webhook: None,
        labels: Labels::new(),
    };
    let mut session = UploadSession::begin(engine, task_type, submission)
        .await
        .expect("it begins");
    session.field("fate", json!("arrives")).expect("a field");
    session
}

async fn store_file(session: &mut UploadSession) -> Result<(), SubmitError> {
    let body = futures::stream::iter([Ok(b"abc".to_vec().into())]).boxed();
    let name = FileName::parse("a.txt").expect("a name");
    session.file("files", name, "text/plain", body).await
}

/// A request whose file is stored.
async fn received(engine: &Engine, key: Option<&str>) -> UploadSession {
    let mut session = begun(engine, key).await;
    store_file(&mut session).await.expect("a file");
    session
}

async fn stored(engine: &Engine) -> usize {
    let all: Vec<_> = engine
        .ports
        .objects
        .list("")
        .try_collect()
        .await
        .expect("they are listed");
    all.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_abandoned_over_a_lost_reply_leaves_no_file() {
    let stage = stage().await;
    let session = received(&stage.engine, Some("k")).await;
    assert_eq!(stored(&stage.engine).await, 1);
    stage.lose(1);
    session.abandon("its client went away").await;
    assert_eq!(stage.proxy.lost(), 1);
    assert_eq!(stored(&stage.engine).await, 0);
    let mut again = received(&stage.engine, Some("k")).await;
    assert!(!again.submit().await.expect("its key is free").replayed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_begin_was_written_without_an_answer_frees_its_key() {
    let (mut stage, clock) = (stage().await, TestClock::new());
    stage.engine.ports.clock = Arc::new(clock.clone());
    let mut session = begun(&stage.engine, Some("k")).await;
    stage.proxy.lose_replies(u32::MAX, is_commit);
    let passes = async {
        crate::suite::eventually("its begin", || async {
            let key = stage.direct.idempotency(&Tenant::default(), "k").await;
            key.expect("an answer")
        })
        .await;
        loop {
            clock.advance("1s");
            tokio::task::yield_now().await;
        }
    };
    let refused = tokio::select! {
        refused = store_file(&mut session) => refused,
        () = passes => unreachable!("it goes on"),
    };
    assert!(matches!(refused, Err(SubmitError::Store(_))), "{refused:?}");
    let key = stage.direct.idempotency(&Tenant::default(), "k").await;
    assert!(key.expect("an answer").is_some(), "its begin was written");
    stage.proxy.cut();
    session.abandon("the store did not answer").await;
    stage.proxy.lose_replies(0, is_commit);
    stage.proxy.heal();
    let mut again = received(&stage.engine, Some("k")).await;
    assert!(!again.submit().await.expect("its key is free").replayed);
}

/// The submission landed and its answer never came: an abandoned request must not delete the files
/// of the task.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_keeps_its_files_when_its_request_is_abandoned_over_a_lost_reply() {
    let stage = stage().await;
    let mut session = received(&stage.engine, None).await;
    let task = session
        .submit()
        .await
        .expect("it is accepted")
        .answer
        .task_id;
    stage.lose(1);
    session.abandon("the store did not answer").await;
    assert_eq!(stage.proxy.lost(), 1);
    assert_eq!(stored(&stage.engine).await, 1);
    assert_eq!(stage.drive(task).await, TaskStatus::Waiting);
}

/// Longer than a statement among others waits.
const WAIT_PATIENTLY: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
    AND datname = current_database() AND clock_timestamp() - query_start > interval '300 ms'";

/// The submission is still under way in the database, its client gone, when its request is
/// abandoned, and it lands first.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_keeps_its_files_when_its_submission_lands_beside_the_end_of_its_request() {
    let stage = stage().await;
    let mut session = received(&stage.engine, Some("k")).await;
    let task = session.task_id();
    let (other, looks) = (raw(&stage.url).await, raw(&stage.url).await);
    let wait = async |count: i64| {
        crate::suite::eventually("statements that wait", || async {
            (super::number(&looks, WAIT_PATIENTLY).await >= count).then_some(())
        })
        .await;
    };
    // The submission has taken its receive by the time that it waits for the key.
    other
        .batch_execute("BEGIN; SELECT FROM idempotency FOR UPDATE")
        .await
        .expect("a lock");
    let (submission, seen) = (session.submit(), Box::pin(wait(1)));
    assert!(matches!(
        futures::future::select(submission, seen).await,
        futures::future::Either::Right(_)
    ));
    let abandoned = tokio::spawn(async move { session.abandon("its connection broke").await });
    wait(2).await;
    other.batch_execute("COMMIT").await.expect("no lock");
    abandoned.await.expect("no panic");
    crate::suite::eventually("the task", || async {
        stage.direct.load(task).await.expect("an answer")
    })
    .await;
    assert_eq!(stored(&stage.engine).await, 1);
    assert_eq!(stage.drive(task).await, TaskStatus::Waiting);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_gets_the_answer_of_a_paused_process_that_goes_on_beside_it() {
    let stage = stage().await;
    let engine = |id: &str, lost_after| {
        let settings = EngineSettings {
            lost_after,
            ..EngineSettings::default()
        };
        Engine::new(
            stage.engine.ports.clone(),
            stage.engine.registry.clone(),
            settings,
            id,
        )
    };
    let paused = engine("paused", Duration::from_millis(1));
    let (present, id) = (paused.clone(), paused.id.to_string());
    let present = tokio::spawn(async move {
        worker_registry::keep_refreshed(
            &present,
            Part::default(),
            Box::pin(std::future::pending::<()>()),
        )
        .await;
    });
    crate::suite::eventually("a process that is registered", || async {
        let workers = stage.direct.workers().await.expect("an answer");
        workers
            .rows
            .iter()
            .any(|seen| seen.row.id == id)
            .then_some(())
    })
    .await;
    present.abort();
    let _ = present.await;
    crate::suite::eventually("a process that counts as lost", || async {
        let workers = stage.direct.workers().await.expect("an answer");
        let seen = workers
            .rows
            .iter()
            .find(|seen| seen.row.id == id)
            .expect("its row");
        (seen.state(workers.now) == WorkerState::Lost).then_some(())
    })
    .await;
    let mut first = received(&paused, Some("k")).await;

    // The repetition has read the key, and asks whether its process is gone.
    let other = raw(&stage.url).await;
    other.batch_execute(WORKERS_TO_HOLD).await.expect("a view");
    other
        .batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7)")
        .await
        .expect("a lock");
    let ports = Ports {
        store: open(&stage.url, options()).await,
        ..stage.engine.ports.clone()
    };
    let repeating = Engine::new(
        ports,
        stage.engine.registry.clone(),
        EngineSettings::default(),
        "api",
    );
    let repetition = tokio::spawn(async move {
        let mut session = received(&repeating, Some("k")).await;
        session.submit().await
    });
    waiting(&other).await;
    let accepted = first.submit().await.expect("it is only paused");
    other.batch_execute("ROLLBACK").await.expect("no lock");

    let repeated = repetition
        .await
        .expect("no panic")
        .expect("the first answer");
    assert_eq!(
        (repeated.answer, repeated.replayed),
        (accepted.answer, true)
    );
    assert_eq!(stage.tasks().await, 1);
}

/// Has each read of the worker registry, and no other read of documents, wait for a lock.
const WORKERS_TO_HOLD: &str = "ALTER TABLE documents RENAME TO held;
    CREATE FUNCTION pass() RETURNS BIGINT LANGUAGE sql VOLATILE AS 'SELECT pg_advisory_xact_lock_shared(7); SELECT 0::bigint';
    CREATE VIEW documents AS SELECT kind, tenant, name, CASE kind WHEN 'worker' THEN rev + pass() ELSE rev END AS rev,
      body, due_at, seen_at FROM held";

#[tokio::test(flavor = "multi_thread")]
async fn views_of_many_tasks_look_for_their_successors_in_one_statement() {
    let (url, tenant) = (database().await, Tenant::default());
    let proxy = Proxy::to(shared_postgres().port());
    let store = open(&proxy.url(&url), options()).await;
    let look = || store.successors(&tenant, new_task());
    look().await.expect("an answer");
    drop(proxy.take_statements());
    for found in join_all((0..60).map(|_| look())).await {
        assert_eq!(found.expect("an answer"), []);
    }
    let statements = proxy.take_statements();
    assert_eq!(
        statements.len(),
        2,
        "one alone, and all others together: {statements:?}"
    );
}
