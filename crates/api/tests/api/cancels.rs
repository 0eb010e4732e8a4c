//! Cancels, each answer with its own code.

use crate::site::Site;
use counterstep_contracts::http::{AuditTrail, CancelAnswer, CancelOutcome};
use counterstep_contracts::{TaskId, TaskStatus};

async fn cancel(site: &Site, task: TaskId) -> crate::reply::Reply {
    site.send(site.request("DELETE", &format!("/api/tasks/{task}")))
        .await
}

async fn ended_as(path: &str, status: TaskStatus) -> (Site, TaskId) {
    let site = Site::start().await;
    site.run_worker();
    let task = site.submit(path).await;
    site.until(task, status).await;
    (site, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_a_worker_is_cancelled_at_once_and_only_once() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/write-note").await;
    let first: CancelAnswer = cancel(&site, task).await.json(202);
    assert_eq!(
        (first.status, first.outcome),
        (TaskStatus::Cancelled, CancelOutcome::NothingHadRun)
    );
    assert_eq!((first.task_id, first.will_undo.len()), (task, 0));
    let second: CancelAnswer = cancel(&site, task).await.json(200);
    assert_eq!(second.outcome, CancelOutcome::AlreadyCancelled);
    let trail: AuditTrail = site
        .get(&format!("/api/tasks/{task}/audit"))
        .await
        .json(200);
    assert_eq!(
        trail
            .entries
            .iter()
            .filter(|entry| entry.to == TaskStatus::Cancelled)
            .count(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_task_is_409() {
    let (site, task) = ended_as("/api/tasks/write-note", TaskStatus::Completed).await;
    cancel(&site, task).await.problem(409, "already-completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_task_is_409() {
    let (site, task) = ended_as("/api/tasks/always-fails", TaskStatus::Failed).await;
    cancel(&site, task).await.problem(409, "already-failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_being_undone_is_409() {
    let (site, task) = ended_as("/api/tasks/undoes-for-long", TaskStatus::Compensating).await;
    cancel(&site, task).await.problem(409, "being-undone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_task_is_409() {
    let (site, task) = ended_as("/api/tasks/cannot-undo", TaskStatus::CompensationFailed).await;
    cancel(&site, task).await.problem(409, "parked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_is_not_cancellable_is_409() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/charge-card").await;
    cancel(&site, task).await.problem(409, "not-cancellable");
}
