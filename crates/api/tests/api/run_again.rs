//! A task that has ended runs again over HTTP: the answer, both views, each refusal; and many at once.

use crate::site::{Site, eventually};
use counterstep_contracts::bulk::{BulkPreview, BulkView};
use counterstep_contracts::http::{Accepted, AuditTrail, Page, TaskSummary, TaskView};
use counterstep_contracts::run_again::PredecessorView;
use counterstep_contracts::{TaskId, TaskStatus};
use serde_json::json;

async fn view(site: &Site, task: TaskId) -> TaskView {
    site.get(&format!("/api/tasks/{task}")).await.json(200)
}

async fn parked() -> (Site, TaskId) {
    let site = Site::start().await;
    site.run_worker();
    let task = site.submit("/api/tasks/asks-a-person").await;
    site.until(task, TaskStatus::DeadLettered).await;
    (site, task)
}

/// Resolved, with its first step completed.
async fn resolved() -> (Site, TaskId) {
    let (site, task) = parked().await;
    let body = r#"{"as":"skipped","note":"later"}"#;
    let path = format!("/api/tasks/{task}/resolve");
    site.post(&path, body).await.assert_status(200);
    (site, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_task_runs_again_and_both_views_say_so() {
    let (site, task) = resolved().await;
    let etag = site.get(&format!("/api/tasks/{task}")).await;
    let etag = etag.header("etag").expect("an ETag").to_owned();
    let path = format!("/api/tasks/{task}/run-again");
    let body = r#"{"from":"judge","note":"look again","actor":"kim"}"#;
    let keyed = || {
        let request = site
            .request("POST", &path)
            .header("Idempotency-Key", "again-1");
        let request = request.header("Content-Type", "application/json");
        site.send(request.body(body))
    };
    let first = keyed().await;
    let answer: Accepted = first.json(202);
    let place = format!("/api/tasks/{}", answer.task_id);
    assert_eq!(first.header("location"), Some(&*place));
    assert_eq!(first.header("idempotency-replayed"), None);
    let second = keyed().await;
    assert_eq!(second.json::<Accepted>(202), answer);
    assert_eq!(second.header("idempotency-replayed"), Some("true"));

    let new = site.until(answer.task_id, TaskStatus::DeadLettered).await;
    let named = PredecessorView {
        task_id: task,
        from: Some("judge".to_owned()),
    };
    assert_eq!(new.predecessor, Some(named));
    assert_eq!(new.steps[0].attempts.0, 0, "it was not run again");
    let old = site.get(&format!("/api/tasks/{task}")).await;
    assert_ne!(old.header("etag"), Some(&*etag));
    assert_eq!(old.json::<TaskView>(200).successors, [answer.task_id]);
    let path = format!("/api/tasks?label=counterstep.predecessor={task}");
    let page: Page<TaskSummary> = site.get(&path).await.json(200);
    assert_eq!(page.items.len(), 1);
    let trail: AuditTrail = site.get(&format!("{place}/audit")).await.json(200);
    let entry = &trail.entries[1];
    assert_eq!(
        (&*entry.event, &*entry.actor),
        ("operator_ran_again", "operator")
    );
    assert_eq!(entry.details["note"], "look again (by kim)");
    let labelled = site.request("POST", "/api/tasks/asks-a-person");
    let labelled = labelled.header("Counterstep-Label", "counterstep.predecessor=x");
    let refused = site.send(
        labelled
            .header("Content-Type", "application/json")
            .body("{}"),
    );
    refused.await.problem(422, "invalid-label");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_has_its_code() {
    let (site, task) = parked().await;
    let again = |task: TaskId, body: &str| {
        let (path, body) = (format!("/api/tasks/{task}/run-again"), body.to_owned());
        let site = &site;
        async move { site.post(&path, body).await }
    };
    let note = r#"{"note":"x"}"#;
    again(task, note).await.problem(409, "not-ended");
    let nowhere = "01930d2c-6c4b-7d5e-8f00-0123456789ab"
        .parse()
        .expect("an id");
    again(nowhere, note).await.problem(404, "no-such-task");
    again(task, r#"{"from":"judge"}"#)
        .await
        .problem(422, "invalid-request");
    // It is undone: what its first step did is gone.
    let undo = r#"{"note":"x","direction":"undo"}"#;
    let path = format!("/api/tasks/{task}/retry");
    site.post(&path, undo).await.assert_status(200);
    site.until(task, TaskStatus::Failed).await;
    let problem = again(task, r#"{"from":"judge","note":"x"}"#).await;
    assert_eq!(problem.problem(409, "effects-undone")["pointer"], "from");
    again(task, r#"{"from":"bake","note":"x"}"#)
        .await
        .problem(404, "no-such-step");
    let problem = again(task, r#"{"patch":{"x":1},"note":"x"}"#).await;
    assert_eq!(
        problem.problem(422, "invalid-request")["pointer"],
        "request.x"
    );
    again(task, note).await.assert_status(202);

    let (resolved, first) = resolved().await;
    let path = format!("/api/tasks/{first}/run-again");
    let last = resolved
        .post(&path, note)
        .await
        .json::<Accepted>(202)
        .task_id;
    resolved.until(last, TaskStatus::DeadLettered).await;
}

async fn ended(site: &Site, id: &str) -> BulkView {
    eventually("the operation has ended", || async {
        let view: BulkView = site
            .get(&format!("/api/bulk-operations/{id}"))
            .await
            .json(200);
        if view.status.has_ended() {
            Ok(view)
        } else {
            Err(format!("{view:?}"))
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_cancelled_and_run_again_by_a_filter() {
    let site = Site::start().await;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(site.submit("/api/tasks/asks-a-person").await);
    }
    let other = site.submit("/api/tasks/write-note").await;
    let path = "/api/bulk-operations";
    let body = |more: serde_json::Value| {
        let mut body = json!({"action": "cancel", "filter": {"type": "asks-a-person"}, "note": "a wrong price"});
        let more = more.as_object().expect("an object").clone();
        body.as_object_mut().expect("an object").extend(more);
        body.to_string()
    };
    let counted: BulkPreview = site
        .post(path, body(json!({"preview": true})))
        .await
        .json(200);
    assert_eq!((counted.count, counted.complete), (3, true));
    let late = json!({"preview": true, "filter": {"until": "2001-01-01T00:00:00Z"}});
    let counted: BulkPreview = site.post(path, body(late)).await.json(200);
    assert_eq!(counted.count, 0);
    let started: BulkView = site.post(path, body(json!({}))).await.json(202);
    assert_eq!(ended(&site, &started.id).await.done, 3);
    for task in &tasks {
        assert_eq!(view(&site, *task).await.status, TaskStatus::Cancelled);
        let trail: AuditTrail = site
            .get(&format!("/api/tasks/{task}/audit"))
            .await
            .json(200);
        let last = trail.entries.last().expect("an entry");
        assert_eq!(last.details["note"], "a wrong price");
        assert_eq!(last.details["bulk_operation"], started.id);
    }
    assert_ne!(view(&site, other).await.status, TaskStatus::Cancelled);

    let again = json!({"action": "run-again", "filter": {"status": ["cancelled"]}});
    let preview = |mut again: serde_json::Value| {
        again["preview"] = json!(true);
        body(again)
    };
    let counted: BulkPreview = site.post(path, preview(again.clone())).await.json(200);
    let refused = counted.refused.expect("a look");
    assert_eq!((counted.count, counted.already_run_again), (3, Some(0)));
    assert_eq!((refused.tasks, refused.reasons.len()), (3, 0));
    let started: BulkView = site.post(path, body(again.clone())).await.json(202);
    let view_of_it = ended(&site, &started.id).await;
    assert_eq!(
        (view_of_it.done, view_of_it.failed),
        (3, 0),
        "{view_of_it:?}"
    );
    // Typed once more it makes no second task of any.
    let counted: BulkPreview = site.post(path, preview(again.clone())).await.json(200);
    assert_eq!((counted.count, counted.already_run_again), (0, Some(3)));
    let started: BulkView = site.post(path, body(again)).await.json(202);
    let once_more = ended(&site, &started.id).await;
    assert_eq!((once_more.done, once_more.already_run_again), (0, Some(3)));
    for task in tasks {
        let successors = view(&site, task).await.successors;
        assert_eq!(successors.len(), 1);
        let new = view(&site, successors[0]).await;
        assert_eq!(new.predecessor.map(|it| it.task_id), Some(task));
        assert_eq!(new.status, TaskStatus::Dispatched);
    }
    for (more, pointer) in [
        (json!({"action": "run-again"}), "filter.status"),
        (
            json!({"filter": {"status": ["completed"]}}),
            "filter.status",
        ),
        (json!({"from": "judge"}), "from"),
        (json!({"patch": {}}), "patch"),
        (json!({"as": "done"}), "as"),
        (json!({"filter": {"since": "yesterday"}}), "filter.since"),
    ] {
        let problem = site.post(path, body(more.clone())).await;
        let problem = problem.problem(422, "invalid-request");
        assert_eq!(problem["pointer"], pointer, "{more}");
    }
}
