//! SIGTERM: a worker gives back what it cannot finish, and ends by itself.

use counterstep_contracts::{Outcome, StepStatus, TaskStatus};
use counterstep_tests::cluster::Cluster;
use counterstep_tests::place::Place;
use counterstep_tests::process::{Launch, Process, Signal};
use counterstep_tests::program::program;
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK};
use counterstep_tests::wait::{SOON, until};
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use std::process::Command;
use std::time::{Duration, Instant};

/// A lease longer than any test waits.
const PATIENT: &[&str] = &[
    "--lease",
    "10m",
    "--test-time",
    "cancel_grace=500ms",
    "--drain",
    "500ms",
];

/// `drain` and `cancel_grace` above, five seconds, and as much again for a machine that has other
/// things to do.
const END: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_to_stop_hands_its_task_over_and_no_recovery_is_counted() {
    let place = Place::new();
    // The next worker gets the task because it was given back.
    let served = services::api(&place, PATIENT);
    let hangs = [PATIENT, &["--plant-fault", "create_zip_archive=hang@1"]].concat();
    let (worker, first) = services::worker(&place, &hangs);
    let samples = Sample::pair(5, 50_000);
    let task = served.api.submit(&samples).await;
    until("the step that hangs", SOON, || async {
        let view = served.api.task(task).await;
        (view.steps[1].status == StepStatus::Running).then_some(())
    })
    .await;
    let ended = worker.stop();
    assert_eq!(ended.code(), Some(0), "{ended}");

    let rows = Rows::of(&place).await;
    let left = rows.task(task).await;
    assert_eq!(
        left.record.task.status,
        TaskStatus::Dispatched,
        "{}",
        left.trail()
    );
    assert_eq!(left.record.steps[1].status, StepStatus::InDoubt);
    assert_eq!(left.record.task.lease_owner, None);
    assert_eq!(left.record.task.recovery_attempts, 0);
    left.assert_sound();
    let last = &left.history.audit.last().expect("an audit trail").entry;
    assert_eq!((last.event.as_str(), &last.actor), ("handed_over", &first));

    let (worker, second) = services::worker(&place, QUICK);
    let view = served.api.at_rest(task).await;
    assert_eq!(view.status, TaskStatus::Completed, "{view:#?}");
    assert_eq!(view.recovery_attempts, 0);
    served.api.assert_archive(task, &samples).await;
    assert!(worker.stop().success());
    assert!(served.process.stop().success());
    let known = rows.task(task).await;
    known.assert_completed_once();
    known.assert_sound();
    let tries: Vec<_> = known
        .history
        .attempts
        .iter()
        .filter(|attempt| attempt.step.0 == 2)
        .map(|attempt| attempt.outcome)
        .collect();
    assert_eq!(tries, [Some(Outcome::InDoubt), Some(Outcome::Succeeded)]);
    let claims: Vec<_> = known
        .history
        .audit
        .iter()
        .filter(|row| row.entry.event == "claimed")
        .map(|row| &row.entry.actor)
        .collect();
    assert_eq!(claims, [&first, &second]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_step_blocks_its_thread_is_named_hands_its_task_over_and_ends() {
    let place = Place::new();
    let served = services::api(&place, PATIENT);
    let blocks = [PATIENT, &["--plant-fault", "create_zip_archive=block@1"]].concat();
    let (mut worker, _) = services::worker(&place, &blocks);
    let task = served.api.submit(&Sample::pair(6, 50_000)).await;
    let named = format!(
        "a step blocks its thread: await what it waits for, and compute in `spawn_blocking` task={task}"
    );
    worker.says("which step blocks", |said| {
        said.lines()
            .any(|line| line.contains(&named) && line.contains("create_zip_archive"))
            .then_some(())
    });
    let told = Instant::now();
    let ended = worker.stop();
    assert_eq!(ended.code(), Some(0), "{ended}");
    assert!(told.elapsed() < END, "{:?}", told.elapsed());

    let left = Rows::of(&place).await.task(task).await;
    assert_eq!(
        left.record.task.status,
        TaskStatus::Dispatched,
        "{}",
        left.trail()
    );
    assert_eq!(
        (
            left.record.steps[1].status,
            left.record.task.lease_owner.as_ref()
        ),
        (StepStatus::InDoubt, None)
    );
    assert_eq!(left.record.task.recovery_attempts, 0);
    left.assert_sound();
    assert!(served.process.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_database_takes_no_writes_ends_all_the_same() {
    let place = Place::new();
    let served = services::api(&place, PATIENT);
    let hangs = [PATIENT, &["--plant-fault", "create_zip_archive=hang@1"]].concat();
    let (mut worker, _) = services::worker(&place, &hangs);
    let task = served.api.submit(&Sample::pair(7, 50_000)).await;
    until("the step that hangs", SOON, || async {
        let view = served.api.task(task).await;
        (view.steps[1].status == StepStatus::Running).then_some(())
    })
    .await;
    // The next writer waits for this, and without success.
    let mut writer = SqliteConnection::establish(&place.database().to_string_lossy())
        .expect("the database opens");
    until("the lock on the database", SOON, || {
        let locked = writer.batch_execute("BEGIN IMMEDIATE").ok();
        async move { locked }
    })
    .await;
    let told = Instant::now();
    worker.signal(Signal::Terminate);
    let ended = worker.ended();
    // Its lease could not be given back, which counts as a lost host later.
    assert_eq!(ended.code(), Some(1), "{ended}");
    assert!(told.elapsed() < END, "{:?}", told.elapsed());
    writer
        .batch_execute("ROLLBACK")
        .expect("the lock is given back");
    assert!(served.process.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_queue_does_not_answer_hands_its_task_over_and_ends() {
    let cluster = Cluster::start(PATIENT);
    let served = cluster.api();
    let mut worker = cluster.process(&["worker", "--plant-fault", "create_zip_archive=hang@1"]);
    let task = served.api.submit(&Sample::pair(8, 50_000)).await;
    until("the step that hangs", SOON, || async {
        let view = served.api.task(task).await;
        (view.steps[1].status == StepStatus::Running).then_some(())
    })
    .await;
    // It takes what is sent and answers nothing.
    let nats = cluster.servers.nats.pid().expect("it runs").to_string();
    let tell = |signal: &str| {
        assert!(
            Command::new("kill")
                .args([signal, nats.as_str()])
                .status()
                .expect("`kill` starts")
                .success()
        )
    };
    tell("-STOP");
    worker.signal(Signal::Terminate);
    let ended = worker.ended();
    tell("-CONT");
    assert_eq!(ended.code(), Some(0), "{ended}\n{}", worker.tail());
    let left = Rows::of_cluster(&cluster).await.task(task).await;
    assert_eq!(
        (left.record.task.status, &left.record.task.lease_owner),
        (TaskStatus::Dispatched, &None)
    );
    assert_eq!(left.record.task.recovery_attempts, 0);
    left.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_ends_by_itself_with_nothing_to_do() {
    let place = Place::new();
    let served = services::api(&place, QUICK);
    let (worker, _) = services::worker(&place, QUICK);
    let reconciler = services::reconciler(&place, QUICK);
    let other = Place::new();
    let dev = services::dev(&other, QUICK);
    for process in [served.process, reconciler] {
        let ended = process.stop();
        assert_eq!(ended.code(), Some(0), "{ended}");
    }
    // A closed terminal.
    for mut process in [worker, dev.process] {
        process.signal(Signal::HangUp);
        let ended = process.ended();
        assert_eq!(ended.code(), Some(0), "{ended}");
        assert!(process.log().contains("shutting down"), "{}", process.log());
    }
}

#[test]
fn a_closed_terminal_does_not_end_what_was_started_to_outlive_it() {
    let place = Place::new();
    let worker = Launch {
        program: "nohup".into(),
        arguments: [
            program().to_str().expect("a path"),
            "worker",
            "--data-dir",
            place.data().to_str().expect("a path"),
        ]
        .map(str::to_owned)
        .to_vec(),
        variables: vec![("PATH".to_owned(), std::env::var("PATH").expect("a path"))],
        user: None,
    };
    let mut worker = Process::launch(&place, &worker);
    worker.says("that it has started", |said| {
        said.contains("worker started").then_some(())
    });
    worker.signal(Signal::HangUp);
    worker.signal(Signal::Terminate);
    let ended = worker.ended();
    assert_eq!(ended.code(), Some(0), "{ended}");
    // The second signal that it hears says so.
    let log = worker.log();
    assert!(
        log.contains("shutting down") && !log.contains("shutting down at once"),
        "{log}"
    );
}
