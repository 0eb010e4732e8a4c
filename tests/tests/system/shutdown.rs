//! SIGTERM: a worker gives back what it cannot finish, and ends by itself.

use counterstep_contracts::{Outcome, StepStatus, TaskStatus};
use counterstep_tests::place::Place;
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK};
use counterstep_tests::wait::{SOON, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_to_stop_hands_its_task_over_and_no_recovery_is_counted() {
    let place = Place::new();
    // A lease that nobody could wait for: the next worker gets the task because it was given back.
    let patient = ["--lease", "10m", "--cancel-grace", "500ms", "--drain", "500ms"];
    let served = services::api(&place, &patient);
    let hangs = [&patient[..], &["--plant-fault", "create_zip_archive=hang@1"]].concat();
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
    assert_eq!(left.record.task.status, TaskStatus::Dispatched, "{}", left.trail());
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
    let tries: Vec<_> =
        known.history.attempts.iter().filter(|attempt| attempt.step.0 == 2).map(|attempt| attempt.outcome).collect();
    assert_eq!(tries, [Some(Outcome::InDoubt), Some(Outcome::Succeeded)]);
    let claims: Vec<_> =
        known.history.audit.iter().filter(|row| row.entry.event == "claimed").map(|row| &row.entry.actor).collect();
    assert_eq!(claims, [&first, &second]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_ends_by_itself_with_nothing_to_do() {
    let place = Place::new();
    let served = services::api(&place, QUICK);
    let (worker, _) = services::worker(&place, QUICK);
    let reconciler = services::reconciler(&place, QUICK);
    let other = Place::new();
    let dev = services::dev(&other, QUICK);
    for process in [served.process, worker, reconciler, dev.process] {
        let ended = process.stop();
        assert_eq!(ended.code(), Some(0), "{ended}");
    }
}
