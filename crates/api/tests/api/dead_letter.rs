//! One dead letter over HTTP: all that there is to know of it, a request that is changed, what it is settled as;
//! and messages that no host can read.

use crate::site::Site;
use counterstep_contracts::dead_letter::{DeadLetterView, PoisonMessages};
use counterstep_contracts::http::TaskView;
use counterstep_contracts::operator::OperatorAnswer;
use counterstep_contracts::{Settled, SettledAs, TaskId, TaskStatus};
use counterstep_kernel::dead_letters::group_of;
use counterstep_kernel::dead_letters::poison;
use counterstep_kernel::ports::Poison;
use serde_json::json;

async fn dead_letter() -> (Site, TaskId) {
    let site = Site::start().await;
    site.run_worker();
    let task = site.submit("/api/tasks/asks-a-person").await;
    site.until(task, TaskStatus::DeadLettered).await;
    (site, task)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_shows_its_request_its_attempts_and_who_ran_them() {
    let (site, task) = dead_letter().await;
    let path = format!("/api/dead-letters/{task}");
    let view: DeadLetterView = site.get(&path).await.json(200);
    assert_eq!(view.letter.status, TaskStatus::DeadLettered);
    let record = site.engine.ports.store.load(task).await;
    let row = record.expect("an answer").expect("a task").task;
    assert_eq!(view.group, group_of("AsksAPerson", row.failure.as_ref()));
    assert_eq!(
        (&view.request, view.earlier_requests.len()),
        (&row.request, 0)
    );
    assert_eq!(view.trace_id.as_deref(), row.trace_id());
    let last = view.attempts.last().expect("an attempt");
    assert_eq!(last.step, "judge");
    let error = last.error.as_deref().expect("an error");
    assert!(error.contains("only a person can judge this"), "{error}");
    assert_eq!(last.worker.as_deref(), Some(&*site.engine.id));
    assert_eq!(view.worker, last.worker);
    let nowhere = "01930d2c-6c4b-7d5e-8f00-0123456789ab";
    let of_nothing = format!("/api/dead-letters/{nowhere}");
    site.get(&of_nothing).await.problem(404, "no-such-task");
    let settle = r#"{"as":"not_needed","note":"the client has left"}"#;
    let resolve = format!("/api/tasks/{task}/resolve");
    site.post(&resolve, settle)
        .await
        .json::<OperatorAnswer>(200);
    site.get(&path).await.problem(409, "not-parked");
    let view: TaskView = site.get(&format!("/api/tasks/{task}")).await.json(200);
    let settled = Settled {
        settled: SettledAs::NotNeeded,
        task: None,
    };
    assert_eq!(view.settled, Some(settled));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_settled_as_redriven_by_a_task_that_is_there() {
    let (site, task) = dead_letter().await;
    let other = site.submit("/api/tasks/asks-a-person").await;
    let resolve = format!("/api/tasks/{task}/resolve");
    let body = |by: &str| format!(r#"{{"as":"redriven","task":"{by}","note":"see there"}}"#);
    let nowhere = "01930d2c-6c4b-7d5e-8f00-0123456789ab";
    for by in [nowhere, &task.to_string()] {
        let problem = site.post(&resolve, body(by)).await;
        assert_eq!(problem.problem(422, "invalid-request")["pointer"], "task");
    }
    for odd in [
        r#"{"as":"redriven","note":"by which?"}"#.to_owned(),
        format!(r#"{{"as":"done","task":"{other}","note":"by which?"}}"#),
    ] {
        site.post(&resolve, odd)
            .await
            .problem(409, "not-settleable");
    }
    let answer = site.post(&resolve, body(&other.to_string())).await;
    assert_eq!(
        answer.json::<OperatorAnswer>(200).status,
        TaskStatus::Resolved
    );
    let view: TaskView = site.get(&format!("/api/tasks/{task}")).await.json(200);
    let settled = Settled {
        settled: SettledAs::Redriven,
        task: Some(other),
    };
    assert_eq!(view.settled, Some(settled));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_request_is_checked_by_its_type() {
    let (site, task) = dead_letter().await;
    let retry = format!("/api/tasks/{task}/retry");
    for (body, code, pointer) in [
        (
            json!({"patch": {"x": 1}, "note": "x"}),
            422,
            Some("request.x"),
        ),
        (json!({"request": 7, "note": "x"}), 422, Some("request")),
        (
            json!({"request": {}, "patch": {}, "note": "x"}),
            422,
            Some("patch"),
        ),
        (
            json!({"patch": {}, "direction": "undo", "note": "x"}),
            409,
            None,
        ),
    ] {
        let answer = site.post(&retry, body.to_string()).await;
        let problem = match code {
            409 => answer.problem(409, "request-not-changeable"),
            _ => answer.problem(422, "invalid-request"),
        };
        assert_eq!(problem["pointer"].as_str(), pointer, "{body}: {problem}");
    }
    let body = json!({"patch": {}, "note": "the same"}).to_string();
    let answer: OperatorAnswer = site.post(&retry, body).await.json(200);
    assert_eq!(answer.status, TaskStatus::Dispatched);
}

#[tokio::test(flavor = "multi_thread")]
async fn poison_is_shown_until_it_is_removed() {
    let site = Site::start().await;
    let path = "/api/poison-messages";
    let found: PoisonMessages = site.get(path).await.json(200);
    assert!(found.items.is_empty());
    let message = Poison::new(
        "work/1".into(),
        "work.x".into(),
        &"{".into(),
        "no JSON".into(),
    );
    let queue = counterstep_contracts::QueueName("files".into());
    poison::keep(&site.engine.ports.store, &queue, &message)
        .await
        .expect("kept");
    let found: PoisonMessages = site.get(path).await.json(200);
    let [one] = &found.items[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (&*one.queue, &*one.payload, &*one.reason),
        ("files", "{", "no JSON")
    );
    let of_it = format!("{path}/{}", one.id);
    site.send(site.request("DELETE", &of_it))
        .await
        .assert_status(204);
    let again = site.send(site.request("DELETE", &of_it)).await;
    again.problem(404, "no-such-poison-message");
}
