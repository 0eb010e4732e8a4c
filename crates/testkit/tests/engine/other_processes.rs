//! Cancels that reach steps in other processes, and cancels that race against completions.

use crate::errand::{Errand, only};
use counterstep_adapters::embedded::{self, EmbeddedOptions, EmbeddedPaths};
use counterstep_contracts::http::CancelOutcome;
use counterstep_contracts::{Host, StepStatus, TaskId, TaskStatus};
use counterstep_kernel::client;
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_steps::CancelToken;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, form, races};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An engine as another process would have it: everything opened anew.
async fn process(folder: &Path, role: &str) -> Engine {
    let paths = EmbeddedPaths {
        database: folder.join("counterstep.db"),
        objects: folder.join("objects"),
        scratch: folder.join("scratch"),
    };
    let ports = embedded::open(paths, EmbeddedOptions::default())
        .await
        .expect("the adapters open");
    // No heartbeat comes for minutes: it cannot be what brings the news.
    let settings = EngineSettings {
        lease: Duration::from_secs(3600),
        ..EngineSettings::default()
    };
    Engine::new(ports, Arc::new(only::<Errand>()), settings, role)
}

/// Cancels a task whose step runs in another process, and returns how long it took until that
/// process had stopped.
async fn cancelled_elsewhere(api: &Engine, worker: &Engine) -> Duration {
    let task = form::submit(api, Form::new().field("pick_ms", 600_000)).await;
    turn(api, Host::Api, task, &CancelToken::new()).await;
    let running = tokio::spawn({
        let worker = worker.clone();
        async move { turn(&worker, Host::Worker, task, &CancelToken::new()).await }
    });
    eventually("its step runs", || async {
        (status(api, task).await.1 == StepStatus::Running).then_some(())
    })
    .await;
    let asked = Instant::now();
    let answer = client::cancel(api, task, "client")
        .await
        .expect("accepted")
        .answer;
    assert_eq!(answer.outcome, CancelOutcome::Stopping);
    assert!(answer.will_undo.contains(&"pick".to_owned()), "{answer:?}");
    let end = tokio::time::timeout(Duration::from_secs(60), running)
        .await
        .expect("it stops")
        .expect("no panic");
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Cancelled));
    asked.elapsed()
}

async fn status(engine: &Engine, task: TaskId) -> (TaskStatus, StepStatus) {
    let record = engine
        .ports
        .store
        .load(task)
        .await
        .expect("an answer")
        .expect("the task");
    (record.task.status, record.steps[1].status)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_a_step_in_another_process_on_the_same_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (api, worker) = (
        process(folder.path(), "api").await,
        process(folder.path(), "worker").await,
    );
    cancelled_elsewhere(&api, &worker).await;
}

/// Not a test of anything:
/// `cargo test -p counterstep-testkit --all-features --release --test engine -- --ignored --nocapture how_soon`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: from a cancel's request to the end of the undo in another process"]
async fn how_soon_a_cancel_is_carried_out_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let (api, worker) = (
        process(folder.path(), "api").await,
        process(folder.path(), "worker").await,
    );
    let mut times = Vec::new();
    for _ in 0..41 {
        times.push(cancelled_elsewhere(&api, &worker).await);
    }
    times.sort_unstable();
    println!(
        "one file, two processes' adapters: median {:?}, longest {:?}",
        times[20], times[40]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_500_races_each_accepted_cancel_ends_cancelled_and_each_late_one_was_completed() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = process(folder.path(), "worker").await;
    let mut tasks = Vec::new();
    for _ in 0..500 {
        let task = form::submit(&engine, Form::new()).await;
        turn(&engine, Host::Api, task, &CancelToken::new()).await;
        tasks.push(task);
    }
    let ran = races::cancel_against_completion(&engine, tasks).await;
    assert_eq!(ran.cancelled + ran.completed, 500);
    println!("{ran:?}");
}
