//! Cancels: before anything ran, while a step runs, while the task sleeps, and too late.

use crate::errand::{Errand, Stubborn, only};
use counterstep_contracts::http::CancelOutcome;
use counterstep_contracts::{Host, StepStatus, TaskId, TaskStatus};
use counterstep_kernel::client;
use counterstep_kernel::client::Refusal;
use counterstep_kernel::ports::{Signal, Signals};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_steps::CancelToken;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, TestTask};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longer than any test takes.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn until(
    task: &TestTask,
    reached: impl Fn(&counterstep_kernel::record::TaskRecord) -> bool,
) {
    eventually("what a task is to reach", || async {
        reached(&task.record().await).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_anything_ran_a_cancel_is_carried_out_at_once() {
    let task = Harness::embedded(only::<Errand>())
        .submit(Form::new())
        .await;
    let answer = client::cancel(&task.engine, task.id, "client")
        .await
        .expect("accepted")
        .answer;
    assert_eq!(
        (answer.outcome, answer.status),
        (CancelOutcome::NothingHadRun, TaskStatus::Cancelled)
    );
    assert_eq!(task.run_to_rest().await, TaskStatus::Cancelled);
    task.assert_trail("cancelled").await;
    let again = client::cancel(&task.engine, task.id, "client")
        .await
        .expect("accepted")
        .answer;
    assert_eq!(again.outcome, CancelOutcome::AlreadyCancelled);
    assert_eq!(
        task.trail().await,
        "cancelled",
        "a second cancel leaves no entry"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_step_is_told_and_everything_is_undone_by_the_owner_of_the_lease() {
    let task = Harness::embedded(only::<Errand>())
        .submit(Form::new().field("pick_ms", 60_000))
        .await;
    let cancel = async {
        until(&task, |record| {
            record.steps[1].status == StepStatus::Running
                && record.steps[2].status != StepStatus::Running
        })
        .await;
        let first = client::cancel(&task.engine, task.id, "client")
            .await
            .expect("accepted")
            .answer;
        let second = client::cancel(&task.engine, task.id, "client")
            .await
            .expect("accepted")
            .answer;
        (first, second)
    };
    let (status, (first, second)) = futures::join!(task.run_to_rest(), cancel);
    assert_eq!(status, TaskStatus::Cancelled);
    assert_eq!(first.outcome, CancelOutcome::Stopping);
    assert_eq!(first.will_undo.last().map(String::as_str), Some("note"));
    assert!(
        matches!(
            second.outcome,
            CancelOutcome::Stopping | CancelOutcome::Undoing
        ),
        "{second:?}"
    );
    task.assert_invariants().await;
    let history = task.history().await;
    let asked = history
        .audit
        .iter()
        .filter(|row| row.entry.event == "cancel_requested")
        .count();
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
    let task = Harness::embedded(only::<Errand>())
        .submit(Form::new().field("busy_times", 9))
        .await;
    let due = task.run_to_wait().await.due_in();
    assert!(!due.is_zero());
    let answer = client::cancel(&task.engine, task.id, "client")
        .await
        .expect("accepted")
        .answer;
    assert_eq!(answer.outcome, CancelOutcome::Undoing);
    assert_eq!(
        turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await,
        TurnEnd::Rests(TaskStatus::Cancelled)
    );
    assert_eq!(
        answer.will_undo[0], "deliver",
        "a step between two attempts has started"
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_late_and_not_allowed_are_told_apart() {
    let task = Harness::embedded(only::<Errand>())
        .submit(Form::new())
        .await;
    task.run_to_rest().await;
    let refusal = client::cancel(&task.engine, task.id, "client")
        .await
        .expect_err("it has completed");
    assert!(
        matches!(refusal, Refusal::TooLate(TaskStatus::Completed)),
        "{refusal:?}"
    );

    let task = Harness::embedded(only::<Stubborn>())
        .submit(Form::new())
        .await;
    let refusal = client::cancel(&task.engine, task.id, "client")
        .await
        .expect_err("its type does not allow it");
    assert!(matches!(refusal, Refusal::NotCancellable), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_that_the_row_does_not_confirm_cancels_nothing() {
    let harness =
        Harness::embedded(only::<Errand>()).settings(|settings| settings.step_timeout = LIMIT);
    let task = harness.submit(Form::new().field("pick_ms", 3_000)).await;
    let forge = async {
        until(&task, |record| {
            record.steps[1].status == StepStatus::Running
        })
        .await;
        let first = task.record().await.task.lease_expires_at;
        // Until a heartbeat has looked at the row.
        eventually("a heartbeat", || async {
            task.engine
                .ports
                .signals
                .send(Signal::CancelRequested(task.id));
            (task.record().await.task.lease_expires_at > first).then_some(())
        })
        .await;
        task.clock.advance("3s");
    };
    let (status, ()) = futures::join!(task.run_to_rest(), forge);
    assert_eq!(status, TaskStatus::Completed);
    let trail = task.trail().await;
    assert!(
        !trail.contains("failed") && !trail.contains("undone"),
        "{trail}"
    );
    task.assert_invariants().await;
}

/// All signals are lost.
#[derive(Debug)]
struct Lossy;

impl Signals for Lossy {
    fn send(&self, _: Signal) {}

    fn subscribe(&self) -> BoxStream<'static, Signal> {
        stream::pending().boxed()
    }

    fn cancels_of(&self, _: TaskId) -> BoxStream<'static, ()> {
        stream::pending().boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_all_signals_lost_a_heartbeat_brings_a_cancel_to_the_running_step() {
    let harness = Harness::embedded(only::<Errand>()).settings(|settings| {
        (settings.lease, settings.step_timeout) = (Duration::from_secs(3), LIMIT)
    });
    let mut task = harness.submit(Form::new().field("pick_ms", 60_000)).await;
    task.engine.ports.signals = Arc::new(Lossy);
    let cancel = async {
        until(&task, |record| {
            record.steps[1].status == StepStatus::Running
        })
        .await;
        let answer = client::cancel(&task.engine, task.id, "client")
            .await
            .expect("accepted")
            .answer;
        task.clock.advance("1s");
        answer.outcome
    };
    let (status, outcome) = futures::join!(task.run_to_rest(), cancel);
    assert_eq!(
        (status, outcome),
        (TaskStatus::Cancelled, CancelOutcome::Stopping)
    );
    task.assert_invariants().await;
}

/// Hints of a cancel without an end, and how many of them were taken.
#[derive(Debug, Default)]
struct Storm(Arc<AtomicU64>);

impl Signals for Storm {
    fn send(&self, _: Signal) {}

    fn subscribe(&self) -> BoxStream<'static, Signal> {
        stream::pending().boxed()
    }

    fn cancels_of(&self, _: TaskId) -> BoxStream<'static, ()> {
        let taken = self.0.clone();
        let hint = move || {
            taken.fetch_add(1, Ordering::SeqCst);
        };
        stream::repeat_with(hint).boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_hints_is_no_storm_of_heartbeats() {
    let mut task = Harness::embedded(only::<Errand>())
        .submit(Form::new().field("pick_ms", 1500))
        .await;
    let taken = Arc::default();
    task.engine.ports.signals = Arc::new(Storm(Arc::clone(&taken)));
    let began = Instant::now();
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    // One for each turn at its start, and then one in a second; each brings one heartbeat forward.
    let turns = task
        .history()
        .await
        .audit
        .iter()
        .filter(|row| row.entry.event == "claimed")
        .count();
    let most = began.elapsed().as_secs() + u64::try_from(turns).expect("a count") + 1;
    let taken = taken.load(Ordering::SeqCst);
    assert!(
        (1..=most).contains(&taken),
        "{taken} hints led to a look at the row, at most {most} may"
    );
}
