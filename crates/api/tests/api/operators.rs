//! What operators ask over HTTP: dead letters, plan, why, retry, resolve, and each refusal with its
//! code.

use crate::reply::Reply;
use crate::site::Site;
use counterstep_contracts::http::{AuditTrail, Page, TaskView};
use counterstep_contracts::operator::{
    DeadLetter, NotUndoneKind, OperatorAnswer, RecoveriesAnswer, UndoPlan, Why, WhyCode,
};
use counterstep_contracts::{StepStatus, TaskId, TaskStatus};

async fn parked(path: &str, status: TaskStatus) -> (Site, TaskId) {
    let site = Site::start().await;
    site.run_worker();
    let task = site.submit(path).await;
    site.until(task, status).await;
    (site, task)
}

async fn dead_letter() -> (Site, TaskId) {
    parked("/api/tasks/asks-a-person", TaskStatus::DeadLettered).await
}

async fn half_undone() -> (Site, TaskId) {
    parked("/api/tasks/cannot-undo", TaskStatus::CompensationFailed).await
}

async fn decide(site: &Site, task: TaskId, what: &str, body: &str) -> Reply {
    site.post(&format!("/api/tasks/{task}/{what}"), body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_goes_on_with_an_output_that_a_person_supplies() {
    let (site, task) = dead_letter().await;
    let wrong = r#"{"step":"judge","as":"done","output":{"length":"long"},"note":"measured"}"#;
    let problem = decide(&site, task, "resolve", wrong)
        .await
        .problem(422, "invalid-output");
    assert_eq!(problem["pointer"], "output.length");
    let right =
        r#"{"step":"judge","as":"done","output":{"length":7},"note":"measured","actor":"kim"}"#;
    let answer: OperatorAnswer = decide(&site, task, "resolve", right).await.json(200);
    assert_eq!(
        (answer.status, answer.open_steps.len()),
        (TaskStatus::Dispatched, 0)
    );
    let view = site.until(task, TaskStatus::Completed).await;
    assert_eq!(view.response, Some(serde_json::json!({"length": 7})));
    let trail: AuditTrail = site
        .get(&format!("/api/tasks/{task}/audit"))
        .await
        .json(200);
    let supplied = trail
        .entries
        .iter()
        .find(|entry| entry.event == "step_supplied")
        .expect("the entry");
    assert_eq!(
        (supplied.actor.as_str(), supplied.details["note"].as_str()),
        ("operator", Some("measured (by kim)"))
    );
    decide(&site, task, "resolve", right)
        .await
        .problem(409, "not-parked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_redriven_or_undone() {
    let (site, task) = dead_letter().await;
    let answer: OperatorAnswer = decide(&site, task, "retry", r#"{"note":"look again"}"#)
        .await
        .json(200);
    assert_eq!(answer.status, TaskStatus::Dispatched);
    let view = site.until(task, TaskStatus::DeadLettered).await;
    assert_eq!(view.steps[1].attempts.0, 2, "it gave up again");
    let undo = r#"{"note":"no longer wanted","direction":"undo"}"#;
    let answer: OperatorAnswer = decide(&site, task, "retry", undo).await.json(200);
    assert_eq!(
        (answer.status, answer.will_undo),
        (TaskStatus::Compensating, vec!["reserve".to_owned()])
    );
    site.until(task, TaskStatus::Failed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_that_gave_up_is_retried_settled_or_resolved() {
    let (site, task) = half_undone().await;
    decide(&site, task, "retry", r#"{"note":"again"}"#)
        .await
        .json::<OperatorAnswer>(200);
    let view = site.until(task, TaskStatus::CompensationFailed).await;
    assert_eq!(
        (view.steps[0].undo_attempts.0, view.steps[0].status),
        (2, StepStatus::CompensationFailed)
    );
    let forward = decide(
        &site,
        task,
        "retry",
        r#"{"note":"again","direction":"forward"}"#,
    )
    .await;
    forward.problem(409, "no-way-forward");
    let settled = r#"{"step":"reserve","as":"undone","note":"called them"}"#;
    let answer: OperatorAnswer = decide(&site, task, "resolve", settled).await.json(200);
    assert_eq!(
        answer.status,
        TaskStatus::Failed,
        "nothing else was left to undo"
    );

    let (site, task) = half_undone().await;
    let whole = r#"{"as":"skipped","note":"we keep it"}"#;
    let answer: OperatorAnswer = decide(&site, task, "resolve", whole).await.json(200);
    assert_eq!(answer.status, TaskStatus::Resolved);
    assert!(site.until(task, TaskStatus::Resolved).await.residue);
    decide(&site, task, "resolve", whole)
        .await
        .problem(409, "already-resolved");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refusal_has_its_code() {
    let (site, task) = half_undone().await;
    for (body, pointer) in [
        (r#"{"as":"undone"}"#, "."),
        (r#"{"as":"undone","note":"  "}"#, "note"),
        (r#"{"as":"lost","note":"x"}"#, "as"),
        (r#"{"as":"undone","note":"x","actor":""}"#, "actor"),
        (r#"{"as":"undone","note":"x","force":true}"#, "force"),
    ] {
        let problem = decide(&site, task, "resolve", body)
            .await
            .problem(422, "invalid-request");
        assert_eq!(problem["pointer"], pointer, "{body}");
    }
    decide(&site, task, "resolve", "{")
        .await
        .problem(400, "malformed-body");
    let unknown = r#"{"step":"pay","as":"undone","note":"x"}"#;
    decide(&site, task, "resolve", unknown)
        .await
        .problem(404, "no-such-step");
    for body in [
        r#"{"step":"reserve","as":"done","output":1,"note":"x"}"#,
        r#"{"step":"fail","as":"undone","note":"x"}"#,
        r#"{"as":"undone","output":1,"note":"x"}"#,
    ] {
        decide(&site, task, "resolve", body)
            .await
            .problem(409, "not-settleable");
    }
    let missing = TaskId(uuid::Uuid::nil());
    decide(&site, missing, "retry", r#"{"note":"x"}"#)
        .await
        .problem(404, "no-such-task");
    // One whose step goes on, and one whose undo waits for its next try.
    let running = site.submit("/api/tasks/plod").await;
    site.until(running, TaskStatus::Running).await;
    let undoing = site.submit("/api/tasks/undoes-for-long").await;
    site.until(undoing, TaskStatus::Compensating).await;
    for live in [running, undoing] {
        decide(&site, live, "retry", r#"{"note":"x"}"#)
            .await
            .problem(409, "not-parked");
        decide(&site, live, "resolve", r#"{"as":"done","note":"x"}"#)
            .await
            .problem(409, "not-parked");
    }
    // A text for people: it moves no cursor, and begins no line of a log or a terminal by itself.
    for odd in ["\\r", "\\u001b[2J", "\\u0007", "\\u009b2J", "\\u007f"] {
        let body = format!(r#"{{"as":"undone","note":"a{odd}b"}}"#);
        let problem = decide(&site, task, "resolve", &body).await;
        assert_eq!(
            problem.problem(422, "invalid-request")["pointer"],
            "note",
            "{odd}"
        );
    }
    site.get(&format!("/api/tasks/{task}/resolve"))
        .await
        .problem(405, "method-not-allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_what_is_undone_and_what_is_not() {
    let (site, task) = dead_letter().await;
    let plan: UndoPlan = site.get(&format!("/api/tasks/{task}/plan")).await.json(200);
    assert_eq!(plan.stages.len(), 1);
    assert_eq!(
        (
            plan.stages[0].steps[0].step.as_str(),
            plan.stages[0].steps[0].undo.as_str()
        ),
        ("reserve", "release")
    );
    assert_eq!(
        (plan.not_undone[0].kind, plan.not_undone[0].reason.as_str()),
        (NotUndoneKind::Waived, "it only looks")
    );

    let live = Site::start().await;
    let task = live.submit("/api/tasks/asks-a-person").await;
    let plan: UndoPlan = live.get(&format!("/api/tasks/{task}/plan")).await.json(200);
    assert_eq!(
        (plan.status, plan.stages.len(), plan.not_undone.len()),
        (TaskStatus::Dispatched, 0, 0)
    );
    live.get(&format!("/api/tasks/{}/plan", uuid::Uuid::nil()))
        .await
        .problem(404, "no-such-task");
}

#[tokio::test(flavor = "multi_thread")]
async fn why_says_what_a_task_waits_for_and_what_an_operator_can_do() {
    let (site, task) = dead_letter().await;
    let why: Why = site.get(&format!("/api/tasks/{task}/why")).await.json(200);
    assert_eq!(
        (why.because[0].code, &why.because[0].steps[..]),
        (WhyCode::Parked, &["judge".to_owned()][..])
    );
    let detail = &why.because[0].detail;
    assert!(
        detail.starts_with("it has waited for a person for ") && !detail.contains(" 0"),
        "{detail}"
    );
    let can = why
        .operator_can
        .iter()
        .find(|can| can.path.ends_with("/retry"))
        .expect("a retry");
    let body = can.body.as_ref().expect("a body").to_string();
    assert_eq!(site.post(&can.path, body).await.status, 200, "{can:?}");

    let idle = Site::start().await;
    let task = idle.submit("/api/tasks/write-note").await;
    let why: Why = idle.get(&format!("/api/tasks/{task}/why")).await.json(200);
    assert_eq!(
        (why.because[0].code, why.because[0].queue.as_deref()),
        (WhyCode::Unclaimed, Some("notes"))
    );
    assert_eq!(why.operator_can[0].method, "DELETE");

    let (site, task) = parked("/api/tasks/write-note", TaskStatus::Completed).await;
    let why: Why = site.get(&format!("/api/tasks/{task}/why")).await.json(200);
    assert_eq!(
        (why.because[0].code, why.operator_can.len()),
        (WhyCode::Ended, 1)
    );
    let can = &why.operator_can[0];
    let body = can.body.as_ref().expect("a body").to_string();
    assert_eq!(site.post(&can.path, body).await.status, 202, "{can:?}");

    let waits = Site::start().await;
    waits.run_worker();
    let task = waits.submit("/api/tasks/undoes-for-long").await;
    crate::site::eventually("the next undo is due later", || async {
        let why: Why = waits.get(&format!("/api/tasks/{task}/why")).await.json(200);
        let due = why
            .because
            .iter()
            .find(|reason| reason.code == WhyCode::Due);
        due.filter(|due| due.until.is_some())
            .map(drop)
            .ok_or_else(|| format!("{why:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_in_pages_with_what_went_wrong() {
    let site = Site::start().await;
    site.run_worker();
    let mut tasks = Vec::new();
    for path in [
        "/api/tasks/asks-a-person",
        "/api/tasks/cannot-undo",
        "/api/tasks/asks-a-person",
        "/api/tasks/always-fails",
    ] {
        tasks.push(site.submit(path).await);
    }
    site.until(tasks[0], TaskStatus::DeadLettered).await;
    site.until(tasks[1], TaskStatus::CompensationFailed).await;
    site.until(tasks[2], TaskStatus::DeadLettered).await;
    site.until(tasks[3], TaskStatus::Failed).await;
    let list = |query: &str| {
        let path = format!("/api/dead-letters{query}");
        let site = &site;
        async move { site.get(&path).await.json::<Page<DeadLetter>>(200) }
    };
    let ids = |page: &Page<DeadLetter>| {
        page.items
            .iter()
            .map(|item| item.task_id)
            .collect::<Vec<_>>()
    };
    // The newest first: of two that were submitted in one millisecond, the one with the higher id.
    let mut newest_first = [tasks[0], tasks[1], tasks[2]];
    newest_first.sort_by_key(|task| std::cmp::Reverse(task.0));
    let first = list("?limit=2").await;
    assert_eq!(ids(&first), newest_first[..2]);
    let judged = first.items.iter().find(|item| item.task_id != tasks[1]);
    let failure = judged
        .and_then(|item| item.failure.as_ref())
        .expect("a failure");
    assert_eq!(
        (failure.step.as_deref(), failure.message.as_str()),
        (Some("judge"), "only a person can judge this")
    );
    let cursor = first.next_cursor.expect("another page");
    let second = list(&format!("?limit=2&cursor={cursor}")).await;
    assert_eq!(
        (ids(&second), second.next_cursor),
        (vec![newest_first[2]], None)
    );
    assert_eq!(ids(&list("?type=cannot-undo").await), [tasks[1]]);
    assert_eq!(
        ids(&list("?status=dead_lettered").await),
        newest_first
            .into_iter()
            .filter(|task| *task != tasks[1])
            .collect::<Vec<_>>()
    );
    site.get(&format!("/api/tasks?limit=2&cursor={cursor}"))
        .await
        .problem(400, "malformed-parameter");
    for (since, found) in [("2020-01-01T00:00:00Z", 3), ("2999-01-01T00:00:00Z", 0)] {
        let page = list(&format!("?parked_since={since}")).await;
        assert_eq!(page.items.len(), found, "{since}");
    }
    let longest = list("?order=longest_parked").await;
    let since: Vec<_> = longest
        .items
        .iter()
        .map(|it| it.updated_at.clone())
        .collect();
    assert!(longest.items.len() == 3 && since.is_sorted(), "{since:?}");
    let first = list("?order=longest_parked&limit=1").await;
    assert_eq!(
        (ids(&first), first.next_cursor),
        (vec![longest.items[0].task_id], None)
    );
    let none = list("?order=longest_parked&parked_since=2999-01-01T00:00:00Z").await;
    assert_eq!(none.items, []);
    let cursor = list("?limit=1").await.next_cursor.expect("a second page");
    for query in [
        "order=oldest".to_owned(),
        format!("order=longest_parked&cursor={cursor}"),
    ] {
        site.get(&format!("/api/dead-letters?{query}"))
            .await
            .problem(422, "invalid-request");
    }
    site.get("/api/dead-letters?parked_since=yesterday")
        .await
        .problem(422, "invalid-request");
    site.get("/api/dead-letters?status=failed")
        .await
        .problem(422, "invalid-request");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_count_of_lost_hosts_is_set_with_a_note_and_within_what_the_type_allows() {
    let (site, task) = dead_letter().await;
    let body = r#"{"recovery_attempts":2,"note":"the rack had no power","actor":"kim"}"#;
    let answer: RecoveriesAnswer = decide(&site, task, "recoveries", body).await.json(200);
    assert_eq!(
        (answer.status, answer.recovery_attempts, answer.allowed),
        (TaskStatus::DeadLettered, 2, 3)
    );
    let view: TaskView = site.get(&format!("/api/tasks/{task}")).await.json(200);
    assert_eq!(
        (view.status, view.recovery_attempts),
        (TaskStatus::DeadLettered, 2)
    );
    let trail: AuditTrail = site
        .get(&format!("/api/tasks/{task}/audit"))
        .await
        .json(200);
    let entry = trail.entries.last().expect("the entry");
    assert_eq!(
        (entry.event.as_str(), entry.actor.as_str()),
        ("operator_set_recoveries", "operator")
    );
    assert_eq!(
        entry.details,
        serde_json::json!({"note": "the rack had no power (by kim)", "recoveries": 2, "before": 0, "allowed": 3})
    );

    for (body, pointer) in [
        (r#"{"recovery_attempts":4,"note":"x"}"#, "recovery_attempts"),
        (
            r#"{"recovery_attempts":-1,"note":"x"}"#,
            "recovery_attempts",
        ),
        (r#"{"recovery_attempts":0,"note":""}"#, "note"),
        (r#"{"note":"x"}"#, "."),
    ] {
        let problem = decide(&site, task, "recoveries", body)
            .await
            .problem(422, "invalid-request");
        assert_eq!(problem["pointer"], pointer, "{body}");
    }
    decide(&site, task, "resolve", r#"{"as":"skipped","note":"x"}"#)
        .await
        .json::<OperatorAnswer>(200);
    decide(&site, task, "recoveries", body)
        .await
        .problem(409, "already-ended");
    decide(&site, TaskId(uuid::Uuid::nil()), "recoveries", body)
        .await
        .problem(404, "no-such-task");
}
