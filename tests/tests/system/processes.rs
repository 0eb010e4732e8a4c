//! Services in processes of their own on one SQLite file: hosts are lost and come back, and each step still has one
//! committed output.

use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_tests::place::Place;
use counterstep_tests::process::{Process, Signal};
use counterstep_tests::rows::{Rows, is_locked};
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK};
use counterstep_tests::wait::{LATER, SOON, until};
use futures::future::join_all;

const TASKS: u64 = 60;

/// Large enough for a worker to be found in the middle of a step.
const SIZE: u64 = 1_500_000;

/// Tasks that are leased to this worker.
async fn held_by(rows: &Rows, tasks: &[TaskId], worker: &str) -> Vec<TaskId> {
    let mut held = Vec::new();
    for task in tasks {
        let record = rows.task(*task).await.record;
        if record.task.lease_owner.as_deref() == Some(worker) {
            held.push(*task);
        }
    }
    held
}

/// Stops a worker while it holds tasks and no lock. A stop at the wrong moment is taken back and tried again.
async fn stop_in_the_middle(place: &Place, tasks: &[TaskId], (process, id): &(Process, String)) -> Vec<TaskId> {
    let rows = Rows::of(place).await;
    until("a worker in the middle of a task", SOON, || async {
        process.signal(Signal::Stop);
        let held = held_by(&rows, tasks, id).await;
        if held.is_empty() || is_locked(place) {
            process.signal(Signal::Continue);
            return None;
        }
        Some(held)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_tasks_complete_although_one_worker_is_killed_and_one_stands_still() {
    let place = Place::new();
    let served = services::api(&place, QUICK);
    let doomed = services::worker(&place, QUICK);
    let paused = services::worker(&place, QUICK);
    let reconcilers = [(); 2].map(|()| services::reconciler(&place, QUICK));
    let rows = Rows::of(&place).await;

    let api = &served.api;
    let tasks = join_all((0..TASKS).map(|seed| async move { api.submit(&Sample::pair(seed, SIZE)).await })).await;
    stop_in_the_middle(&place, &tasks, &doomed).await;
    doomed.0.kill();
    let held = stop_in_the_middle(&place, &tasks, &paused).await;
    // As a supervisor would.
    let replacement = services::worker(&place, QUICK);
    until("the paused worker's tasks with somebody else", LATER, || async {
        held_by(&rows, &held, &paused.1).await.is_empty().then_some(())
    })
    .await;
    paused.0.signal(Signal::Continue);
    let (mut paused, paused_id) = paused;
    paused
        .says("that it was fenced", |said| (said.contains("fenced: ") || said.contains("lease is lost")).then_some(()));

    for (task, seed) in tasks.iter().zip(0..) {
        let view = api.at_rest(*task).await;
        assert_eq!(view.status, TaskStatus::Completed, "{view:#?}");
        api.assert_archive(*task, &Sample::pair(seed, SIZE)).await;
    }
    rows.assert_no_orphans().await;
    for process in [served.process, paused, replacement.0].into_iter().chain(reconcilers) {
        assert!(process.stop().success());
    }
    let known = rows.tasks().await;
    assert_eq!(known.len(), tasks.len());
    for task in &known {
        task.assert_completed_once();
        task.assert_sound();
    }
    for task in held {
        let known = rows.task(task).await;
        let claims: Vec<_> = known.history.audit.iter().filter(|row| row.entry.event == "claimed").collect();
        let lost = claims.iter().find(|row| row.entry.actor == paused_id).expect("the paused worker had claimed it");
        let wrote_later = known.history.audit.iter().any(|row| {
            row.entry.actor == paused_id && row.entry.epoch == lost.entry.epoch && {
                let next = known.history.audit.iter().find(|next| next.entry.epoch > lost.entry.epoch);
                next.is_some_and(|next| row.seq > next.seq)
            }
        });
        assert!(!wrote_later, "written under a lost epoch: {}", known.trail());
        assert!(known.trail().contains("in doubt"), "nobody took it over: {}", known.trail());
    }
}
