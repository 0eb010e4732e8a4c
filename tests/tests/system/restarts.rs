//! A fleet of workers that is restarted one by one while it works: no task fails, no step that has
//! finished runs again, and each process ends in time.

use counterstep_contracts::{StepStatus, TaskId, TaskStatus};
use counterstep_tests::api::Api;
use counterstep_tests::effects::{Fleet, submit};
use counterstep_tests::process::{Process, Signal};
use counterstep_tests::rows::Rows;
use counterstep_tests::wait::{LATER, SOON, until};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const PROGRAM: &str = env!("CARGO_BIN_EXE_effects");

/// A lease longer than any test waits: a task that continues was given back.
const TIMES: &[&str] = &[
    "--lease",
    "10m",
    "--test-time",
    "cancel_grace=1s",
    "--drain",
    "8s",
];

/// `drain` and `cancel_grace` above, and five seconds.
const LIMIT: Duration = Duration::from_secs(14);

const WORKERS: usize = 3;

/// What a run came to.
struct Run {
    tasks: usize,
    restarts: usize,
    exits: Vec<Duration>,
}

/// Submits a task after the other on each of a few connections, until it is told to stop.
async fn load(api: Api, stop: Arc<AtomicBool>) -> Vec<TaskId> {
    let mut tasks: Vec<TaskId> = Vec::new();
    // Some steps are over at once, and some are under way for a second.
    for step_ms in [5, 50, 300, 1_000].into_iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        tasks.push(submit(&api, "run-errand", &json!({"step_ms": step_ms})).await);
        // A few at a time of each client: the fleet is busy and keeps up.
        if let Some(earlier) = tasks.len().checked_sub(8) {
            api.at_rest_within(tasks[earlier], LATER).await;
        }
    }
    tasks
}

/// Restarts the workers one after the other, `rounds` times each.
async fn rolling_restart(mut enough: impl FnMut(usize) -> bool) -> Run {
    let fleet = Fleet::start(PROGRAM, TIMES);
    let (api_process, api) = fleet.api();
    let worker = || fleet.worker(&["--concurrency", "8"]);
    let mut workers: Vec<Process> = (0..WORKERS).map(|_| worker()).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for _ in 0..3 {
        clients.spawn(load(api.clone(), stop.clone()));
    }

    let (mut restarts, mut exits) = (0, Vec::new());
    while !enough(restarts) {
        // Under load: each worker that is told to end has tasks.
        let before = fleet.finished().len();
        until("more effects", SOON, || async {
            (fleet.finished().len() > before + 20).then_some(())
        })
        .await;
        let mut old = workers.remove(0);
        let told = Instant::now();
        old.signal(Signal::Terminate);
        let ended = old.ended();
        let took = told.elapsed();
        assert_eq!(ended.code(), Some(0), "{ended}\n{}", old.tail());
        assert!(took < LIMIT, "{took:?}\n{}", old.tail());
        exits.push(took);
        restarts += 1;
        workers.push(worker());
    }
    stop.store(true, Ordering::Relaxed);
    let tasks = clients.join_all().await.concat();

    let rows = Rows::of_cluster(&fleet.cluster).await;
    for &task in &tasks {
        api.at_rest_within(task, LATER).await;
        let known = rows.task(task).await;
        assert_eq!(
            known.record.task.status,
            TaskStatus::Completed,
            "{}",
            known.trail()
        );
        assert_eq!(known.record.task.recovery_attempts, 0, "{}", known.trail());
        let wrong = known.outputs_not_once();
        assert!(wrong.is_empty(), "{task}: {wrong:?}: {}", known.trail());
    }
    assert_eq!(fleet.repeated(), Vec::<String>::new(), "finished twice");
    assert_eq!(fleet.finished().len(), 4 * tasks.len());
    for process in workers.into_iter().chain([api_process]) {
        assert!(process.stop().success());
    }
    Run {
        tasks: tasks.len(),
        restarts,
        exits,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_that_is_restarted_one_by_one_completes_every_task_and_repeats_no_finished_step() {
    let run = rolling_restart(|restarts| restarts == WORKERS).await;
    assert!(run.tasks > WORKERS, "no load");
}

/// Prints its figures: `cargo test --workspace --all-features --test system restarts_for -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs for two minutes"]
async fn restarts_for_two_minutes() {
    let since = Instant::now();
    let run = rolling_restart(|_| since.elapsed() > Duration::from_secs(120)).await;
    let (shortest, longest) = (run.exits.iter().min(), run.exits.iter().max());
    println!(
        "{} tasks, {} restarts, exits from {shortest:?} to {longest:?}",
        run.tasks, run.restarts
    );
}

/// The step that a worker is in the middle of, in seconds.
const LONG: u64 = 60_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_hurries_and_another_worker_goes_on_at_once() {
    let mut fleet = Fleet::start(
        PROGRAM,
        &[
            "--lease",
            "10m",
            "--test-time",
            "cancel_grace=500ms",
            "--drain",
            "10m",
        ],
    );
    let (api_process, api) = fleet.api();
    let mut worker = fleet.worker(&[]);
    let task = submit(&api, "run-errand", &json!({"step_ms": LONG})).await;
    until("the step runs", SOON, || async {
        let view = api.task(task).await;
        (view.steps[0].status == StepStatus::Running).then_some(())
    })
    .await;
    worker.signal(Signal::Terminate);
    worker.says("that it waits", |said| {
        said.contains("shutting down: waiting").then_some(())
    });
    worker.signal(Signal::Terminate);
    let ended = worker.ended();
    assert_eq!(ended.code(), Some(0), "{ended}\n{}", worker.tail());
    let rows = Rows::of_cluster(&fleet.cluster).await;
    let left = rows.task(task).await;
    assert_eq!(
        left.record.task.status,
        TaskStatus::Dispatched,
        "{}",
        left.trail()
    );
    assert_eq!(
        (
            &left.record.task.lease_owner,
            left.record.task.recovery_attempts
        ),
        (&None, 0)
    );

    // The lease would be held for ten minutes.
    fleet
        .cluster
        .set_flags(&["--lease", "10m", "--drain", "10m"]);
    let mut next = fleet.worker(&[]);
    until("the next worker runs it", SOON, || async {
        let view = api.task(task).await;
        (view.steps[0].status == StepStatus::Running).then_some(())
    })
    .await;

    // A third signal ends it at once.
    next.signal(Signal::Terminate);
    next.says("that it waits", |said| {
        said.contains("shutting down: waiting").then_some(())
    });
    next.signal(Signal::Terminate);
    next.says("that it hurries", |said| {
        said.contains("shutting down at once").then_some(())
    });
    next.signal(Signal::Terminate);
    let ended = next.ended();
    assert_eq!(ended.code(), Some(130), "{ended}\n{}", next.tail());
    assert!(api_process.stop().success());
}
