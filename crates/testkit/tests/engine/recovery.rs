//! Lost and paused hosts.

use crate::errand::{Errand, only};
use counterstep_contracts::{Direction, Host, StepStatus, TaskStatus};
use counterstep_kernel::faults::{Fault, FaultKind};
use counterstep_kernel::ports::Lost;
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_reconciler::recovery;
use counterstep_steps::{CancelReason, CancelToken};
use counterstep_testkit::site::eventually;
use counterstep_testkit::{Form, Harness, invariants};
use futures::future::{Either, select};
use std::pin::pin;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_worker_cannot_commit_after_takeover() {
    let task = Harness::embedded(only::<Errand>())
        .submit(Form::new().field("pick_ms", 1_000))
        .await;
    let token = CancelToken::new();
    turn(&task.engine, Host::Api, task.id, &token).await;
    let mut paused = Box::pin(turn(&task.engine, Host::Worker, task.id, &token));
    // Polled until its steps run, then left alone, like a process under SIGSTOP: no step goes on,
    // no heartbeat.
    while task.record().await.steps[1].status != StepStatus::Running {
        let _ = tokio::time::timeout(Duration::from_millis(10), &mut paused)
            .await
            .expect_err("it is still running");
    }
    let works = async {
        eventually("another attempt", || async {
            (task.record().await.steps[1].attempts.0 == 2).then_some(())
        })
        .await;
        task.clock.advance("1s");
    };
    let (status, ()) = futures::join!(task.run_to_rest(), works);
    assert_eq!(
        status,
        TaskStatus::Completed,
        "another one took over when the lease ran out"
    );
    assert_eq!(paused.await, TurnEnd::Lost, "the first one is fenced");
    task.assert_invariants().await;
    assert_eq!(
        invariants::successes(&task.history().await, Direction::Forward),
        4
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_loses_host_after_host_is_undone() {
    // It hangs and ignores its token; each turn on it is dropped, as if its process had died.
    let hangs = Fault::at("deliver", FaultKind::Hang);
    let harness = Harness::embedded(only::<Errand>())
        .settings(|settings| settings.step_timeout = Duration::from_secs(60))
        .fault(hangs.clone());
    let task = harness.submit(Form::new()).await;
    let token = CancelToken::new();
    turn(&task.engine, Host::Api, task.id, &token).await;
    // Until the engine has had enough of it: by a take-back, or by a claim after the lease has run
    // out.
    let (task, hangs, token) = (&task, &hangs, &token);
    eventually("the end of its recoveries", || async move {
        let before = hangs.struck();
        let lost = eventually("its work in `deliver`", || async move {
            (hangs.struck() > before).then_some(())
        });
        let dropped = turn(&task.engine, Host::Worker, task.id, token);
        if let Either::Right((TurnEnd::Rests(TaskStatus::Failed), _)) =
            select(pin!(lost), pin!(dropped)).await
        {
            return Some(());
        }
        task.clock.advance("10s");
        let plan = recovery::plan(&task.engine, Lost::default(), 10)
            .await
            .expect("the plan");
        recovery::run(&task.engine, plan, &CancelToken::new()).await;
        (task.record().await.task.status == TaskStatus::Compensating).then_some(())
    })
    .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let trail = task.trail().await;
    assert_eq!(
        trail.matches("deliver in doubt").count(),
        2,
        "one recovery is allowed, the second is too many: {trail}"
    );
    let record = task.record().await;
    let failure = record.task.failure.expect("a failure");
    assert_eq!(failure.class, "lost");
    assert_eq!(
        failure.message.matches("`deliver` on test:").count(),
        2,
        "each loss is named: {}",
        failure.message
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_hands_the_task_over_and_uses_up_no_retry() {
    let hangs = Fault::at("deliver", FaultKind::Hang).on_attempt(1);
    let harness = Harness::embedded(only::<Errand>())
        .settings(|settings| settings.drain = Duration::from_millis(50))
        .fault(hangs.clone());
    let task = harness.submit(Form::new()).await;
    let token = CancelToken::new();
    turn(&task.engine, Host::Api, task.id, &token).await;
    let shutdown = async {
        eventually("its work in `deliver`", || async {
            (hangs.struck() > 0).then_some(())
        })
        .await;
        token.cancel(CancelReason::Shutdown);
    };
    let (end, ()) = futures::join!(turn(&task.engine, Host::Worker, task.id, &token), shutdown);
    assert_eq!(end, TurnEnd::GivenBack);
    let record = task.record().await;
    assert_eq!(
        (record.task.status, record.task.lease_owner),
        (TaskStatus::Dispatched, None)
    );
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let record = task.record().await;
    assert_eq!(
        (
            record.steps[4].attempts.0,
            record.steps[4].retries_used,
            record.task.recovery_attempts
        ),
        (2, 0, 0)
    );
    assert!(
        task.trail().await.contains("deliver in doubt, deliver ok"),
        "{}",
        task.trail().await
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_hosts_that_want_one_task_give_it_one_turn() {
    let task = Harness::embedded(only::<Errand>())
        .submit(Form::new())
        .await;
    let token = CancelToken::new();
    turn(&task.engine, Host::Api, task.id, &token).await;
    let turns = (0..10).map(|_| turn(&task.engine, Host::Worker, task.id, &token));
    let ends = futures::future::join_all(turns).await;
    let rests = ends
        .iter()
        .filter(|end| matches!(end, TurnEnd::Rests(TaskStatus::Completed)))
        .count();
    assert!(rests >= 1, "{ends:?}");
    let claims = task
        .history()
        .await
        .audit
        .iter()
        .filter(|row| row.entry.event == "claimed")
        .count();
    assert_eq!(claims, 2, "once on the api host, once on a worker");
    task.assert_invariants().await;
}
