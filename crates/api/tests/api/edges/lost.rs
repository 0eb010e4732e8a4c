//! Scenes of hosts that are lost permanently, or counted anew, and of tasks that no host claims.

use super::Stage;
use crate::script::SLOW;
use crate::site::eventually;
use counterstep_contracts::http::{AuditTrail, TaskView};
use counterstep_contracts::{Host, StepStatus, TaskStatus};
use counterstep_reconciler::redispatch;
use counterstep_steps::CancelToken;
use counterstep_testkit::LossyQueue;
use counterstep_testkit::clock::until_works;
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn undone_when_lost(stage: &mut Stage) {
    // Found by the reconciler, and lost once more in its undo, which continues.
    let made = stage
        .submit("fragile", r#"{"make":["hang"],"unmake":["hang"]}"#)
        .await;
    stage.lose_host_at(made, "make", StepStatus::Running).await;
    stage.site.recover().await;
    stage.until(made, TaskStatus::Compensating).await;
    stage
        .lose_host_at(made, "make", StepStatus::Compensating)
        .await;
    // Found by the next host, which undoes it itself; and one that has nothing to undo.
    let claimed = stage.submit("fragile", r#"{"make":["hang"]}"#).await;
    stage
        .lose_host_at(claimed, "make", StepStatus::Running)
        .await;
    let nothing = stage
        .submit("fragile", r#"{"skip":true,"finish":["hang"]}"#)
        .await;
    stage
        .lose_host_at(nothing, "finish", StepStatus::Running)
        .await;
    for task in [made, claimed, nothing] {
        stage.turn(task).await;
        stage.until(task, TaskStatus::Failed).await;
        let view: TaskView = stage
            .site
            .get(&format!("/api/tasks/{task}"))
            .await
            .json(200);
        assert_eq!(
            view.failure.as_ref().map(|failure| failure.class.as_str()),
            Some("lost"),
            "{view:?}"
        );
        assert_eq!(
            view.steps.iter().map(|step| step.attempts.0).max(),
            Some(1),
            "it ran once: {view:?}"
        );
    }
}

/// No host claims it: no message arrives, and no host polls.
pub(super) async fn unclaimed(stage: &mut Stage) {
    const AFTER: Duration = Duration::from_millis(1);
    let submitted = stage.submit("weighs", "{}").await;
    let dispatched = stage.submit("plain", "{}").await;
    let waits = stage.submit("plain", r#"{"make":["busy"]}"#).await;
    stage.turn(waits).await;
    stage.until(waits, TaskStatus::Waiting).await;
    let undone = stage
        .submit("plain", r#"{"make":["broken"],"unmake":["busy"]}"#)
        .await;
    stage.turn(undone).await;
    stage.until(undone, TaskStatus::Compensating).await;
    // Beside a queue that could have lost something.
    let mut engine = stage.site.engine.clone();
    let none = redispatch::plan(&engine, AFTER, 100)
        .await
        .expect("a plan")
        .offer;
    assert_eq!(
        none,
        Vec::new(),
        "this queue hands out the tasks themselves"
    );
    engine.ports.queue = Arc::<LossyQueue>::default();
    // Longer than the delays of the retries.
    stage.site.clock.advance_by(SLOW);
    for task in [submitted, dispatched, waits, undone] {
        let before = engine
            .ports
            .store
            .load(task)
            .await
            .expect("an answer")
            .expect("the task")
            .task
            .rev;
        eventually("it is offered again", || async {
            let plan = redispatch::plan(&engine, AFTER, 100).await.expect("a plan");
            redispatch::run(&engine, plan, AFTER, &CancelToken::new()).await;
            let record = engine
                .ports
                .store
                .load(task)
                .await
                .expect("an answer")
                .expect("the task");
            if record.task.rev > before {
                Ok(())
            } else {
                Err(record.task.status)
            }
        })
        .await;
    }
    let trail: AuditTrail = stage
        .site
        .get(&format!("/api/tasks/{dispatched}/audit"))
        .await
        .json(200);
    let again = trail
        .entries
        .iter()
        .find(|entry| entry.event == "offered_again")
        .expect("the entry");
    assert!(again.details["nobody_came_since"].is_string(), "{again:?}");
    let view: TaskView = stage
        .site
        .get(&format!("/api/tasks/{dispatched}"))
        .await
        .json(200);
    assert_eq!(view.due_at, None, "it waits for nothing");
    let (_api, _worker) = (
        stage.site.run_host(Host::Api),
        stage.site.run_host(Host::Worker),
    );
    for task in [submitted, dispatched, waits] {
        stage.until(task, TaskStatus::Completed).await;
    }
    stage.until(undone, TaskStatus::Failed).await;
}

/// Counts lost hosts anew, in every state that a task can go on from.
pub(super) async fn recounts(stage: &mut Stage) {
    const BODY: &str = r#"{"recovery_attempts":1,"note":"the rack had no power"}"#;
    let submitted = stage.submit("weighs", "{}").await;
    let dispatched = stage.submit("plain", "{}").await;
    stage.decide(submitted, "recoveries", BODY).await;
    stage.decide(dispatched, "recoveries", BODY).await;
    stage.cancel(dispatched).await;
    let worker = stage.site.run_host(Host::Worker);
    let waits = stage.submit("patient", r#"{"make":["busy"]}"#).await;
    stage.until(waits, TaskStatus::Waiting).await;
    stage.decide(waits, "recoveries", BODY).await;
    let dead = stage.submit("parks", r#"{"finish":["broken"]}"#).await;
    stage.until(dead, TaskStatus::DeadLettered).await;
    stage.decide(dead, "recoveries", BODY).await;
    let stuck = stage
        .submit("plain", r#"{"make":["broken"],"unmake":["broken"]}"#)
        .await;
    stage.until(stuck, TaskStatus::CompensationFailed).await;
    stage.decide(stuck, "recoveries", BODY).await;
    // Under the feet of the host that runs it, which goes on, and whose progress counts. Before the
    // undo that hangs: a task with as many losses as its type allows runs with no other in its
    // process.
    let runs = stage.submit("plain", r#"{"finish":["slow"]}"#).await;
    stage.until_step(runs, "finish", StepStatus::Running).await;
    stage.decide(runs, "recoveries", BODY).await;
    until_works(runs).await;
    stage.site.clock.advance_by(SLOW);
    stage.until(runs, TaskStatus::Completed).await;
    let undone = stage
        .submit("plain", r#"{"make":["broken"],"unmake":["hang"]}"#)
        .await;
    stage
        .until_step(undone, "make", StepStatus::Compensating)
        .await;
    stage.decide(undone, "recoveries", BODY).await;
    let hangs = stage.submit("plain", r#"{"finish":["hang"]}"#).await;
    stage.until_step(hangs, "finish", StepStatus::Running).await;
    stage.decide(hangs, "recoveries", BODY).await;
    stage.cancel(hangs).await;
    stage.until(hangs, TaskStatus::Cancelled).await;
    worker.stop().await;

    // What it is for: without it the second loss would have it undone.
    let plain = stage.submit("plain", r#"{"make":["hang","hang"]}"#).await;
    stage.lose_host_at(plain, "make", StepStatus::Running).await;
    stage.site.recover().await;
    stage
        .decide(
            plain,
            "recoveries",
            r#"{"recovery_attempts":0,"note":"the rack had no power"}"#,
        )
        .await;
    stage.lose_host_at(plain, "make", StepStatus::Running).await;
    stage.site.recover().await;
    let _worker = stage.site.run_host(Host::Worker);
    stage.until(plain, TaskStatus::Completed).await;
    stage.until(undone, TaskStatus::Failed).await;
}
