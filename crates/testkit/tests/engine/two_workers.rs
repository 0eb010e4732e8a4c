//! Two workers never commit one step: a paused one is fenced when it comes back, and of many that
//! want one task one gets it. The same at the store: `concurrent_changes` and `commits` in
//! `crates/adapters/tests/adapters/suite`.

use crate::errand::{Errand, only};
use counterstep_contracts::{Direction, Host, StepStatus, TaskStatus};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_steps::CancelToken;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, invariants};
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
