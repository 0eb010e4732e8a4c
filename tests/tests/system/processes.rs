//! Services in processes of their own on one SQLite file: hosts are lost and come back, and each
//! step still has one committed output.

use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::record::AuditRow;
use counterstep_tests::api::Api;
use counterstep_tests::place::Place;
use counterstep_tests::process::{Process, Signal};
use counterstep_tests::rows::{Rows, is_locked};
use counterstep_tests::sample::Sample;
use counterstep_tests::services;
use counterstep_tests::wait::{LATER, SOON, until};
use futures::{StreamExt, stream};

const TASKS: u64 = 60;

/// Longer than elsewhere: seven processes share this disk, and a lease that runs out because its
/// heartbeats stand in line is another test's business.
const TIMES: &[&str] = &[
    "--lease",
    "4s",
    "--step-timeout",
    "20s",
    "--test-time",
    "cancel_grace=500ms",
    "--drain",
    "2s",
];

/// Submissions at a time.
const CLIENTS: usize = 10;

/// Large enough for a worker to be found in the middle of a step.
const SIZE: u64 = 1_500_000;

/// Stops a worker while it holds tasks and no lock. A stop at the wrong moment is taken back and
/// tried again.
async fn stop_in_the_middle(place: &Place, (process, id): &(Process, String)) -> Vec<TaskId> {
    let rows = Rows::of(place).await;
    until("a worker in the middle of a task", SOON, || async {
        process.signal(Signal::Stop);
        let held = rows.leased_to(id).await;
        if held.is_empty() || is_locked(place) {
            process.signal(Signal::Continue);
            return None;
        }
        Some(held)
    })
    .await
}

async fn submit_all(api: Api) -> Vec<TaskId> {
    let submissions = (0..TASKS).map(|seed| {
        let api = api.clone();
        async move { api.submit(&Sample::pair(seed, SIZE)).await }
    });
    stream::iter(submissions).buffered(CLIENTS).collect().await
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_tasks_complete_although_one_worker_is_killed_and_one_stands_still() {
    let place = Place::new();
    let served = services::api(&place, TIMES);
    let doomed = services::worker(&place, TIMES);
    let paused = services::worker(&place, TIMES);
    let reconcilers = [(); 2].map(|()| services::reconciler(&place, TIMES));
    let rows = Rows::of(&place).await;

    let submitting = tokio::spawn(submit_all(served.api.clone()));
    stop_in_the_middle(&place, &doomed).await;
    doomed.0.kill();
    let held = stop_in_the_middle(&place, &paused).await;
    // As a supervisor would.
    let replacement = services::worker(&place, TIMES);
    until(
        "the paused worker's tasks with another worker",
        LATER,
        || async { rows.leased_to(&paused.1).await.is_empty().then_some(()) },
    )
    .await;
    paused.0.signal(Signal::Continue);
    let (mut paused, paused_id) = paused;
    paused.says("that it was fenced", |said| {
        (said.contains("fenced: ") || said.contains("lease is lost")).then_some(())
    });

    let (api, tasks) = (&served.api, submitting.await.expect("all are accepted"));
    for (task, seed) in tasks.iter().zip(0..) {
        let view = api.at_rest(*task).await;
        assert_eq!(view.status, TaskStatus::Completed, "{view:#?}");
        api.assert_archive(*task, &Sample::pair(seed, SIZE)).await;
    }
    rows.assert_no_orphans().await;
    for process in [served.process, paused, replacement.0]
        .into_iter()
        .chain(reconcilers)
    {
        assert!(process.stop().success());
    }
    let known = rows.tasks().await;
    assert_eq!(known.len(), tasks.len());
    for task in &known {
        task.assert_completed_once();
        task.assert_sound();
    }
    // That it wrote nothing under its lost epochs is one of the invariants above.
    for task in held {
        let known = rows.task(task).await;
        let had_it = |row: &AuditRow| row.entry.event == "claimed" && row.entry.actor == paused_id;
        assert!(known.history.audit.iter().any(had_it), "{}", known.trail());
        assert!(
            known.trail().contains("in doubt"),
            "no worker took it over: {}",
            known.trail()
        );
    }
}
