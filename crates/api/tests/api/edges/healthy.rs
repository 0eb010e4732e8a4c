//! Scenes on hosts that are not lost: tasks that complete, are cancelled, wait, fail, and are
//! parked until an operator decides.

use super::Stage;
use counterstep_contracts::http::Accepted;
use counterstep_contracts::{Host, StepStatus, TaskStatus};

pub(super) async fn calm(stage: &mut Stage) {
    let plain = stage.submit("plain", "{}").await;
    let skips = stage.submit("plain", r#"{"skip":true}"#).await;
    let uploads = stage.submit("uploads", r#"{"files":[]}"#).await;
    stage
        .tasks
        .push(stage.site.keep("a.txt", "text/plain", "a").await);
    let (_api, _worker) = (
        stage.site.run_host(Host::Api),
        stage.site.run_host(Host::Worker),
    );
    for task in [plain, skips, uploads] {
        stage.until(task, TaskStatus::Completed).await;
    }
    let again = format!("/api/tasks/{plain}/run-again");
    let body = r#"{"from":"finish","note":"once more"}"#;
    let again: Accepted = stage.site.post(&again, body).await.json(202);
    stage.tasks.push(again.task_id);
    stage.until(again.task_id, TaskStatus::Completed).await;
}

pub(super) async fn cancels(stage: &mut Stage) {
    // Before anybody has it.
    let weighs = stage.submit("weighs", "{}").await;
    let uploads = stage.submit("uploads", r#"{"files":[]}"#).await;
    let plain = stage.submit("plain", "{}").await;
    for task in [weighs, uploads, plain] {
        stage.cancel(task).await;
    }
    // Between two hosts.
    let between = stage.submit("uploads", r#"{"files":[]}"#).await;
    let api = stage.site.run_host(Host::Api);
    stage.until(between, TaskStatus::Dispatched).await;
    api.stop().await;
    stage.cancel(between).await;

    let worker = stage.site.run_host(Host::Worker);
    for task in [weighs, uploads, plain, between] {
        stage.until(task, TaskStatus::Cancelled).await;
    }
    // While it runs, and while it waits.
    let runs = stage.submit("plain", r#"{"finish":["hang"]}"#).await;
    stage.until_step(runs, "finish", StepStatus::Running).await;
    let naps = stage.submit("naps", "{}").await;
    let asks = stage.submit("asks-first", "{}").await;
    let busy = stage.submit("patient", r#"{"make":["busy"]}"#).await;
    let later = stage.submit("patient", r#"{"finish":["busy"]}"#).await;
    for task in [naps, asks, busy, later] {
        stage.until(task, TaskStatus::Waiting).await;
    }
    for task in [runs, naps, asks, busy, later] {
        stage.cancel(task).await;
        stage.until(task, TaskStatus::Cancelled).await;
    }
    // A waived step in doubt: its process shut down, and then came the cancel.
    let doubt = stage.submit("plain", r#"{"finish":["hang"]}"#).await;
    stage.until_step(doubt, "finish", StepStatus::Running).await;
    worker.stop().await;
    stage.until_step(doubt, "finish", StepStatus::InDoubt).await;
    stage.cancel(doubt).await;
    let _worker = stage.site.run_host(Host::Worker);
    stage.until(doubt, TaskStatus::Cancelled).await;
}

pub(super) async fn waits(stage: &mut Stage) {
    let _worker = stage.site.run_host(Host::Worker);
    let busy = stage
        .submit("plain", r#"{"make":["busy"],"finish":["broken"]}"#)
        .await;
    let asks = stage.submit("asks-first", "{}").await;
    let line = stage.submit("behind", r#"{"make":["busy"]}"#).await;
    stage.until(asks, TaskStatus::Waiting).await;
    stage.signal(asks, "second", "2").await;
    stage.signal(asks, "first", "1").await;
    for task in [busy, asks] {
        stage.until(task, TaskStatus::Completed).await;
    }
    stage.until(line, TaskStatus::Waiting).await;
    stage.cancel(line).await;
}

pub(super) async fn failures(stage: &mut Stage) {
    let _worker = stage.site.run_host(Host::Worker);
    for (task_type, script) in [
        ("plain", r#"{"make":["broken"],"unmake":["busy"]}"#),
        ("plain", r#"{"finish":["broken","broken"]}"#),
        ("leaves-it", r#"{"make":["broken"]}"#),
        ("behind", r#"{"make":["broken"]}"#),
        ("scratches", r#"{"finish":["broken"]}"#),
    ] {
        let task = stage.submit(task_type, script).await;
        stage.until(task, TaskStatus::Failed).await;
    }
}

pub(super) async fn parked(stage: &mut Stage) {
    let _worker = stage.site.run_host(Host::Worker);
    let mut dead = Vec::new();
    for _ in 0..4 {
        dead.push(stage.submit("parks", r#"{"finish":["broken"]}"#).await);
    }
    for task in &dead {
        stage.until(*task, TaskStatus::DeadLettered).await;
    }
    stage.decide(dead[0], "retry", r#"{"note":"again"}"#).await;
    stage.until(dead[0], TaskStatus::Completed).await;
    stage
        .decide(
            dead[1],
            "resolve",
            r#"{"step":"finish","as":"done","output":7,"note":"by hand"}"#,
        )
        .await;
    stage.until(dead[1], TaskStatus::Completed).await;
    stage
        .decide(
            dead[2],
            "retry",
            r#"{"note":"no longer wanted","direction":"undo"}"#,
        )
        .await;
    stage.until(dead[2], TaskStatus::Failed).await;
    stage
        .decide(
            dead[3],
            "resolve",
            r#"{"as":"skipped","note":"left as it is"}"#,
        )
        .await;
    stage.until(dead[3], TaskStatus::Resolved).await;

    let mut stuck = Vec::new();
    for _ in 0..3 {
        stuck.push(
            stage
                .submit("plain", r#"{"make":["broken"],"unmake":["broken"]}"#)
                .await,
        );
    }
    for task in &stuck {
        stage.until(*task, TaskStatus::CompensationFailed).await;
    }
    stage.decide(stuck[0], "retry", r#"{"note":"again"}"#).await;
    stage.until(stuck[0], TaskStatus::Failed).await;
    stage
        .decide(
            stuck[1],
            "resolve",
            r#"{"step":"make","as":"undone","note":"by hand"}"#,
        )
        .await;
    stage.until(stuck[1], TaskStatus::Failed).await;
    stage
        .decide(
            stuck[2],
            "resolve",
            r#"{"as":"skipped","note":"left as it is"}"#,
        )
        .await;
    stage.until(stuck[2], TaskStatus::Resolved).await;
}
