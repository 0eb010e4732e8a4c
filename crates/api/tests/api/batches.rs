//! Many requests in one body, each with its own outcome.

use crate::site::Site;
use counterstep_contracts::TaskStatus;
use counterstep_contracts::http::{BatchAnswer, BatchOutcome};
use serde_json::{Value, json};

const BATCH: &str = "/api/tasks/write-note/batch";

async fn post(site: &Site, items: &Value) -> Vec<BatchOutcome> {
    let reply = site.post(BATCH, items.to_string()).await;
    reply.json::<BatchAnswer>(200).items
}

/// `accepted`, `replayed`, or the code of the refusal.
fn words(outcomes: &[BatchOutcome]) -> Vec<String> {
    let word = |outcome: &BatchOutcome| match outcome {
        BatchOutcome::Accepted(_) => "accepted".to_owned(),
        BatchOutcome::Replayed(_) => "replayed".to_owned(),
        BatchOutcome::Refused { problem, .. } => format!(
            "{} {}",
            problem.code.as_str(),
            problem.pointer.as_deref().unwrap_or("-")
        ),
    };
    outcomes.iter().map(word).collect()
}

fn task(outcome: &BatchOutcome) -> counterstep_contracts::TaskId {
    match outcome {
        BatchOutcome::Accepted(accepted) | BatchOutcome::Replayed(accepted) => accepted.task_id,
        BatchOutcome::Refused { problem, .. } => panic!("{problem}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_request_keeps_no_other_from_being_accepted() {
    let site = Site::start().await;
    site.run_worker();
    let long = "k".repeat(256);
    let deep: Value =
        serde_json::from_str(&format!("{}{}", "[".repeat(63), "]".repeat(63))).unwrap();
    let items = json!([
        {"request": {"text": "one"}},
        {"request": {"text": 5}},
        {"request": {"text": "a\u{0}b"}},
        {"request": {"text": "x", "txet": 1}},
        {"key": "k", "request": {"text": "two"}},
        {"key": "k", "request": {"text": "two"}},
        {"key": "k", "request": {"text": "three"}},
        {"key": "a b", "request": {"text": "x"}},
        {"key": "", "request": {"text": "x"}},
        {"key": long, "request": {"text": "x"}},
        {"key": "\n", "request": {"text": "x"}},
        {"key": 5, "request": {"text": "x"}},
        {"key": "x"},
        {"kee": "x", "request": {"text": "x"}},
        "text",
        null,
        {"request": {"text": deep}},
        {"request": {"text": "last"}},
    ]);
    let outcomes = post(&site, &items).await;
    let expected = [
        "accepted",
        "invalid-request text",
        "invalid-request /request/text",
        "invalid-request txet",
        "accepted",
        "replayed",
        "idempotency-mismatch Idempotency-Key",
        "malformed-idempotency-key key",
        "malformed-idempotency-key key",
        "malformed-idempotency-key key",
        "malformed-idempotency-key key",
        "invalid-request -",
        "invalid-request -",
        "invalid-request -",
        "invalid-request -",
        "invalid-request -",
        "invalid-request text",
        "accepted",
    ];
    assert_eq!(words(&outcomes), expected);
    assert_eq!(task(&outcomes[4]), task(&outcomes[5]));
    assert_eq!(site.tasks().await, 3);
    for at in [0, 4, 17] {
        site.until(task(&outcomes[at]), TaskStatus::Completed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_repeated_makes_no_second_task() {
    let site = Site::start().await;
    let first =
        json!([{"key": "a", "request": {"text": "a"}}, {"key": "b", "request": {"text": "b"}}]);
    let once = post(&site, &first).await;
    let more = json!([
        {"key": "c", "request": {"text": "c"}},
        {"key": "b", "request": {"text": "b"}},
        {"key": "a", "request": {"text": "other"}},
    ]);
    let again = post(&site, &more).await;
    let expected = [
        "accepted",
        "replayed",
        "idempotency-mismatch Idempotency-Key",
    ];
    assert_eq!(words(&again), expected);
    assert_eq!(task(&again[1]), task(&once[1]));
    assert_eq!(site.tasks().await, 3);
    // A request of its own has the same keys.
    let request = site
        .request("POST", "/api/tasks/write-note")
        .header("content-type", "application/json")
        .header("idempotency-key", "c");
    let alone = site.send(request.body(r#"{"text":"c"}"#)).await;
    assert_eq!(alone.header("idempotency-replayed"), Some("true"));
    assert_eq!(site.tasks().await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_at_once_with_the_same_keys_make_one_task_of_each() {
    let site = Site::start().await;
    let item = |n: u32| json!({"key": format!("k{n}"), "request": {"text": n.to_string()}});
    let one: Value = (0..50).map(item).collect();
    let two: Value = (0..50).rev().map(item).collect();
    let (one, two) = futures::join!(post(&site, &one), post(&site, &two));
    let accepted = |outcomes: &[BatchOutcome]| {
        let words = words(outcomes);
        words.iter().filter(|word| *word == "accepted").count()
    };
    assert_eq!(accepted(&one) + accepted(&two), 50);
    let (mut ones, mut twos): (Vec<_>, Vec<_>) = (
        one.iter().map(task).collect(),
        two.iter().map(task).collect(),
    );
    ones.sort_unstable();
    twos.sort_unstable();
    assert_eq!(ones, twos);
    assert_eq!(site.tasks().await, 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_requests_are_one_batch_and_one_more_is_too_many() {
    let site = Site::start().await;
    let of = |count: usize| -> Value { vec![json!({"request": {"text": "x"}}); count].into() };
    let many = site.post(BATCH, of(1001).to_string()).await;
    many.problem(413, "too-large");
    assert_eq!(site.tasks().await, 0);
    let outcomes = post(&site, &of(1000)).await;
    assert!(words(&outcomes).iter().all(|word| word == "accepted"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_batch_is_refused_whole() {
    let site = Site::with(|api, _| api.max_json_bytes = 2000).await;
    let deep = format!("[{{\"request\":{}{}}}]", "[".repeat(65), "]".repeat(65));
    let large = format!("[{{\"request\":{{\"text\":\"{}\"}}}}]", "x".repeat(2000));
    let good = r#"{"request":{"text":"x"}}"#;
    let twice = r#"[{"request":{"text":"x"},"request":{"text":"x"}}]"#;
    for (body, status, code) in [
        (String::new(), 400, "malformed-body"),
        (format!("[{good}"), 400, "malformed-body"),
        (format!("[{good},]"), 400, "malformed-body"),
        (deep, 400, "malformed-body"),
        (twice.to_owned(), 400, "malformed-body"),
        (
            format!("[{good},{{\"request\":\"\\ud800\"}}]"),
            400,
            "malformed-body",
        ),
        (large, 413, "too-large"),
        (good.to_owned(), 422, "invalid-request"),
        ("[]".to_owned(), 422, "invalid-request"),
        ("5".to_owned(), 422, "invalid-request"),
    ] {
        site.post(BATCH, body).await.problem(status, code);
    }
    let bytes = site.post(BATCH, b"[{\"request\":\"\xff\"}]".to_vec()).await;
    bytes.problem(400, "malformed-body");
    let body = format!("[{good}]");
    let unknown = site
        .post("/api/tasks/no-such-type/batch", body.clone())
        .await;
    unknown.problem(404, "no-such-task-type");
    let waits = site.post(&format!("{BATCH}?wait=1s"), body.clone()).await;
    waits.problem(422, "invalid-request");
    let json =
        |request: reqwest::RequestBuilder| request.header("content-type", "application/json");
    let keyed = json(site.request("POST", BATCH)).header("idempotency-key", "k");
    let keyed = site.send(keyed.body(body.clone())).await;
    keyed.problem(400, "malformed-idempotency-key");
    let labelled = json(site.request("POST", BATCH)).header("counterstep-label", "a=1");
    let labelled = site.send(labelled.body(body.clone())).await;
    labelled.problem(422, "invalid-label");
    let text = site
        .request("POST", BATCH)
        .header("content-type", "text/plain");
    let text = site.send(text.body(body.clone())).await;
    text.problem(415, "unsupported-media-type");
    let got = site.send(json(site.request("GET", BATCH))).await;
    got.problem(405, "method-not-allowed");
    assert_eq!(got.header("allow"), Some("POST"));
    assert_eq!(site.tasks().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_takes_files_has_no_batches() {
    let site = Site::start().await;
    let items = json!([{"request": {}}, {"request": {"files": []}}, {"no": "request"}]);
    let reply = site
        .post("/api/tasks/keep-files/batch", items.to_string())
        .await;
    let problem = reply.problem(422, "invalid-request");
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(
        detail.starts_with("this type takes files and has no batches"),
        "{detail}"
    );
    assert!(problem["pointer"].is_null(), "{problem}");
    assert_eq!(site.tasks().await, 0);
}
