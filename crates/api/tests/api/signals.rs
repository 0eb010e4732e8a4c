//! Signals over HTTP, each answer with its own code.

use crate::reply::Reply;
use crate::site::Site;
use counterstep_contracts::http::{AuditTrail, SignalAnswer, TaskView};
use counterstep_contracts::{TaskId, TaskStatus, WaitReason};

const GIVEN: &str = r#"{"by": "anna", "level": 3}"#;

async fn send(site: &Site, task: TaskId, name: &str, body: &str) -> Reply {
    site.post(&format!("/api/tasks/{task}/signals/{name}"), body)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_wakes_the_task_that_waits_for_it_and_stands_in_the_audit() {
    let site = Site::start().await;
    site.run_worker();
    let task = site.submit("/api/tasks/ask-first").await;
    let waiting = site.until(task, TaskStatus::Waiting).await;
    assert_eq!(waiting.waiting_for, Some(WaitReason::Signal));
    assert!(waiting.due_at.is_some(), "its deadline");
    let answer: SignalAnswer = send(&site, task, "permission", GIVEN).await.json(202);
    assert_eq!(
        (answer.task_id, answer.signal.as_str()),
        (task, "permission")
    );
    let done: TaskView = site.until(task, TaskStatus::Completed).await;
    assert_eq!(done.response, Some("anna at level 3".into()));
    let again: SignalAnswer = send(&site, task, "permission", r#"{"level": 3, "by": "anna"}"#)
        .await
        .json(202);
    assert_eq!(
        again, answer,
        "a repetition gets the same answer, also once the task has completed"
    );
    let trail: AuditTrail = site
        .get(&format!("/api/tasks/{task}/audit"))
        .await
        .json(200);
    let heard: Vec<_> = trail
        .entries
        .iter()
        .filter(|entry| entry.event == "signal_received")
        .collect();
    assert_eq!(heard.len(), 1);
    assert_eq!(
        (heard[0].actor.as_str(), heard[0].step.as_deref()),
        ("client", Some("permission"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_fit_is_422_with_its_place() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/ask-first").await;
    let problem = send(&site, task, "permission", r#"{"by": "anna", "level": 300}"#).await;
    assert_eq!(problem.problem(422, "invalid-request")["pointer"], "level");
    let problem = send(
        &site,
        task,
        "permission",
        r#"{"by": "anna", "level": 3, "why": ""}"#,
    )
    .await;
    assert_eq!(problem.problem(422, "invalid-request")["pointer"], "why");
    send(&site, task, "permission", "{")
        .await
        .problem(400, "malformed-body");
    send(&site, task, "permission?as=anna", GIVEN)
        .await
        .problem(422, "invalid-request");
    let path = format!("/api/tasks/{task}/signals/permission");
    let text = site
        .send(
            site.request("POST", &path)
                .header("content-type", "text/plain")
                .body(GIVEN),
        )
        .await;
    text.problem(415, "unsupported-media-type");
    site.get(&path).await.problem(405, "method-not-allowed");
    let early: SignalAnswer = send(&site, task, "permission", GIVEN).await.json(202);
    assert_eq!(
        early.task_id, task,
        "one that fits is taken, although no step waits for it yet"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_404() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/ask-first").await;
    let problem = send(&site, task, "blessing", GIVEN)
        .await
        .problem(404, "no-such-signal");
    assert!(
        problem["detail"]
            .as_str()
            .expect("a text")
            .contains("permission"),
        "{problem}"
    );
    let other = site.submit("/api/tasks/write-note").await;
    send(&site, other, "write", GIVEN)
        .await
        .problem(404, "no-such-signal");
    send(&site, site.engine.new_task_id(), "permission", GIVEN)
        .await
        .problem(404, "no-such-task");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_too_late_or_differs_is_409() {
    let site = Site::start().await;
    let task = site.submit("/api/tasks/ask-first").await;
    send(&site, task, "permission", GIVEN)
        .await
        .json::<SignalAnswer>(202);
    send(&site, task, "permission", r#"{"by": "bert", "level": 1}"#)
        .await
        .problem(409, "signal-taken");
    let cancelled = site.submit("/api/tasks/ask-first").await;
    site.send(site.request("DELETE", &format!("/api/tasks/{cancelled}")))
        .await;
    let problem = send(&site, cancelled, "permission", GIVEN)
        .await
        .problem(409, "signal-too-late");
    assert!(
        problem["detail"]
            .as_str()
            .expect("a text")
            .contains("cancelled"),
        "{problem}"
    );
}
