//! Lost and paused hosts.

use crate::errand::{Errand, only};
use counterstep_contracts::{Host, TaskStatus};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::ports::Lost;
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_reconciler::recovery;
use counterstep_steps::{CancelReason, CancelToken};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness};
use futures::future::{Either, select};
use std::pin::pin;
use std::time::Duration;

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
