//! Scenes of what is damaged: rows that cannot be read any more, and scratch folders that are
//! gone.

use super::Stage;
use crate::script::SLOW;
use crate::site::eventually;
use counterstep_contracts::http::TaskView;
use counterstep_contracts::operator::{Why, WhyCode};
use counterstep_contracts::{Host, StepStatus, TaskId, TaskStatus};
use counterstep_kernel::turn::turn;
use counterstep_steps::CancelToken;
use counterstep_testkit::clock::until_works;

/// What its client is told first.
async fn why(stage: &Stage, task: TaskId) -> WhyCode {
    let path = format!("/api/tasks/{task}/why");
    let why: Why = stage.site.get(&path).await.json(200);
    why.because[0].code
}

pub(super) async fn unreadable(stage: &mut Stage) {
    let dispatched = stage.submit("plain", "{}").await;
    stage.spoil(dispatched).await;
    assert_eq!(why(stage, dispatched).await, WhyCode::Unreadable);
    stage.turn(dispatched).await;
    stage.until(dispatched, TaskStatus::DeadLettered).await;
    let view: TaskView = stage
        .site
        .get(&format!("/api/tasks/{dispatched}"))
        .await
        .json(200);
    let failure = view.failure.expect("a failure");
    assert!(
        failure.class == "unreadable" && failure.message.contains("row 1 of the journal"),
        "{failure:?}"
    );

    let newer = stage.submit("plain", "{}").await;
    stage
        .damage(&format!(r#"{{"victim":"{newer}","make":["broken"]}}"#))
        .await;
    stage.turn(newer).await;
    assert_eq!(why(stage, newer).await, WhyCode::NewerProgram);
    stage
        .site
        .get(&format!("/api/tasks/{newer}"))
        .await
        .problem(503, "unavailable");
    stage.tasks.retain(|task| *task != newer);

    let lost = stage.submit("plain", r#"{"make":["hang"]}"#).await;
    stage.lose_host_at(lost, "make", StepStatus::Running).await;
    stage.spoil(lost).await;
    stage.site.recover().await;
    stage.until(lost, TaskStatus::DeadLettered).await;
    stage
        .decide(
            lost,
            "resolve",
            r#"{"step":"make","as":"done","output":1,"note":"by hand"}"#,
        )
        .await;

    let undone = stage
        .submit("plain", r#"{"make":["broken"],"unmake":["hang"]}"#)
        .await;
    stage
        .lose_host_at(undone, "make", StepStatus::Compensating)
        .await;
    stage.spoil(undone).await;
    stage.site.recover().await;
    stage.until(undone, TaskStatus::CompensationFailed).await;

    // Spoiled while its host still has it in memory; read again when it is due.
    let waits = stage.submit("plain", r#"{"make":["slow"]}"#).await;
    let running = {
        let engine = stage.site.engine.clone();
        tokio::spawn(async move { turn(&engine, Host::Worker, waits, &CancelToken::new()).await })
    };
    stage.until_step(waits, "make", StepStatus::Running).await;
    stage.spoil(waits).await;
    until_works(waits).await;
    stage.site.clock.advance_by(SLOW);
    running.await.expect("its turn ends");
    // Longer than the delay of its retry.
    stage.site.clock.advance_by(SLOW);
    let _worker = stage.site.run_host(Host::Worker);
    // Until it is parked it cannot be shown.
    eventually("it is parked", || async {
        let reply = stage.site.get(&format!("/api/tasks/{waits}")).await;
        if reply.status == 200 {
            Ok(())
        } else {
            Err(reply.status)
        }
    })
    .await;
    stage.until(waits, TaskStatus::DeadLettered).await;
}

pub(super) async fn lost_scratch(stage: &mut Stage) {
    let _worker = stage.site.run_host(Host::Worker);
    for script in [r#"{"make":["slow"]}"#, r#"{"finish":["slow"]}"#] {
        let task = stage.submit("scratches", script).await;
        until_works(task).await;
        stage.site.clock.advance_by(SLOW);
        stage.until(task, TaskStatus::Waiting).await;
        stage.site.lose_scratch();
        stage.until(task, TaskStatus::Completed).await;
    }
}
