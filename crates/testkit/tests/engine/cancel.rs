//! Cancels: before anything ran, while a step runs, while the task sleeps, and too late.

use crate::errand::{Errand, Stubborn, only};
use counterstep_contracts::http::CancelOutcome;
use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_kernel::client::Refusal;
use counterstep_testkit::{Form, Harness, TestTask};
use std::time::Duration;

pub(crate) async fn until(task: &TestTask, reached: impl Fn(&counterstep_kernel::record::TaskRecord) -> bool) {
    for _ in 0..1000 {
        if reached(&task.record().await) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not reached: {}", task.trail().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn before_anything_ran_a_cancel_is_carried_out_at_once() {
    let task = Harness::embedded(only::<Errand>()).submit(Form::new()).await;
    let answer = task.engine.cancel(task.id).await.expect("accepted").answer;
    assert_eq!((answer.outcome, answer.status), (CancelOutcome::NothingHadRun, TaskStatus::Cancelled));
    assert_eq!(task.run_to_rest().await, TaskStatus::Cancelled);
    task.assert_trail("cancelled").await;
    let again = task.engine.cancel(task.id).await.expect("accepted").answer;
    assert_eq!(again.outcome, CancelOutcome::AlreadyCancelled);
    assert_eq!(task.trail().await, "cancelled", "a second cancel leaves no entry");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_step_is_told_and_everything_is_undone_by_the_owner_of_the_lease() {
    let task = Harness::embedded(only::<Errand>()).submit(Form::new().field("pick_ms", 60_000)).await;
    let cancel = async {
        until(&task, |record| {
            record.steps[1].status == StepStatus::Running && record.steps[2].status != StepStatus::Running
        })
        .await;
        let first = task.engine.cancel(task.id).await.expect("accepted").answer;
        let second = task.engine.cancel(task.id).await.expect("accepted").answer;
        (first, second)
    };
    let (status, (first, second)) = futures::join!(task.run_to_rest(), cancel);
    assert_eq!(status, TaskStatus::Cancelled);
    assert_eq!(first.outcome, CancelOutcome::Stopping);
    assert_eq!(first.will_undo.last().map(String::as_str), Some("note"));
    assert!(matches!(second.outcome, CancelOutcome::Stopping | CancelOutcome::Undoing), "{second:?}");
    task.assert_invariants().await;
    let history = task.history().await;
    let asked = history.audit.iter().filter(|row| row.entry.event == "cancel_requested").count();
    assert_eq!(asked, 1, "cancelled twice, one audit entry");
    let owners: std::collections::BTreeSet<_> = history
        .audit
        .iter()
        .filter(|row| row.entry.event.starts_with("undo_") || row.entry.event == "stopped")
        .map(|row| row.entry.epoch)
        .collect();
    assert_eq!(owners.len(), 1, "it was undone under the epoch that ran it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeping_task_is_undone_without_waiting_for_its_due_time() {
    let task = Harness::embedded(only::<Errand>()).submit(Form::new().field("busy_times", 9)).await;
    let cancel = async {
        until(&task, |record| record.task.status == TaskStatus::Waiting).await;
        task.engine.cancel(task.id).await.expect("accepted").answer
    };
    let (status, answer) = futures::join!(task.run_to_rest(), cancel);
    assert_eq!((status, answer.outcome), (TaskStatus::Cancelled, CancelOutcome::Undoing));
    assert_eq!(answer.will_undo[0], "deliver", "a step between two attempts has started");
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_late_and_not_allowed_are_told_apart() {
    let task = Harness::embedded(only::<Errand>()).submit(Form::new()).await;
    task.run_to_rest().await;
    let refusal = task.engine.cancel(task.id).await.expect_err("it has completed");
    assert!(matches!(refusal, Refusal::TooLate(TaskStatus::Completed)), "{refusal:?}");

    let task = Harness::embedded(only::<Stubborn>()).submit(Form::new()).await;
    let refusal = task.engine.cancel(task.id).await.expect_err("its type does not allow it");
    assert!(matches!(refusal, Refusal::NotCancellable), "{refusal:?}");
}
