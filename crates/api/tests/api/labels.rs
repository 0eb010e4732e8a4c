//! Labels: where they come from, where they stand, and the lists that go by them.

use crate::reply::Reply;
use crate::site::Site;
use counterstep_contracts::http::{Accepted, AuditTrail, Page, TaskSummary, TaskView};
use counterstep_contracts::operator::DeadLetter;
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_macros::distributed_task;
use counterstep_steps::{StepError, StepResult};
use serde::{Deserialize, Serialize};
use serde_json::json;

const PARCELS: &str = "/api/tasks/parcel";

#[derive(Serialize, Deserialize)]
pub(crate) struct Sent {
    number: u32,
    to: Option<String>,
    #[serde(default)]
    lost: bool,
}

/// Labelled by its declaration; parked where it is lost.
pub(crate) struct Parcel;

#[distributed_task(
    name = "Parcel",
    queue = "parcels",
    label(parcel = "req.number", "ship.to" = "req.to.as_deref().unwrap_or_default()")
)]
impl Parcel {
    type Request = Sent;
    type Response = u32;

    #[step(1, host = "worker", on_exhausted = "dead_letter")]
    #[pure]
    async fn send(req: &Sent) -> StepResult<u32> {
        if req.lost {
            return Err(StepError::permanent(format_args!(
                "parcel {} is lost",
                req.number
            )));
        }
        Ok(req.number)
    }

    fn respond(sent: &u32) -> u32 {
        *sent
    }
}

pub(crate) async fn send(site: &Site, body: &serde_json::Value, labels: &[&str]) -> Reply {
    let mut request = site
        .request("POST", PARCELS)
        .header("content-type", "application/json")
        .body(body.to_string());
    for label in labels {
        request = request.header("Counterstep-Label", *label);
    }
    site.send(request).await
}

pub(crate) async fn sent(site: &Site, number: u32, labels: &[&str]) -> TaskId {
    let reply = send(site, &json!({ "number": number, "to": null }), labels).await;
    reply.json::<Accepted>(202).task_id
}

async fn view(site: &Site, task: TaskId) -> TaskView {
    site.get(&format!("/api/tasks/{task}")).await.json(200)
}

async fn page(site: &Site, query: &str) -> Page<TaskSummary> {
    site.get(&format!("/api/tasks?{query}")).await.json(200)
}

async fn listed(site: &Site, query: &str) -> Vec<TaskId> {
    let page = page(site, query).await;
    page.items.iter().map(|task| task.task_id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_of_the_header_and_of_the_declaration_stand_in_views_lists_and_the_audit() {
    let site = Site::start().await;
    let body = json!({ "number": 1, "to": "Köln" });
    let reply = send(
        &site,
        &body,
        &["order=4711, customer=\"a, b\"", "region=eu"],
    )
    .await;
    let task = reply.json::<Accepted>(202).task_id;
    let expected = json!({
        "customer": "a, b", "order": "4711", "parcel": "1", "region": "eu", "ship.to": "Köln",
    });
    assert_eq!(json!(view(&site, task).await.labels), expected);
    assert_eq!(json!(page(&site, "").await.items[0].labels), expected);
    let trail: AuditTrail = site
        .get(&format!("/api/tasks/{task}/audit"))
        .await
        .json(200);
    assert_eq!(trail.entries[0].details["labels"], expected);
    // An empty text is no label.
    let other = sent(&site, 2, &[]).await;
    assert_eq!(
        json!(view(&site, other).await.labels),
        json!({ "parcel": "2" })
    );
    // A type that declares none, without a header.
    let plain = site.submit("/api/tasks/write-note").await;
    let shown = site.get(&format!("/api/tasks/{plain}")).await;
    assert!(!String::from_utf8_lossy(&shown.body).contains("labels"));
}

#[tokio::test(flavor = "multi_thread")]
async fn durations_by_a_label_that_the_settings_do_not_list_are_refused() {
    let site = Site::start().await;
    let path = "/api/task-types/write-note/durations?label=customer%3D4711";
    let problem = site.get(path).await.problem(422, "invalid-label");
    assert_eq!(problem["pointer"], "label");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(
        detail.contains("list `customer` in `metrics_labels`"),
        "{detail}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_that_is_none_is_refused_with_its_name_and_leaves_no_task() {
    let site = Site::start().await;
    let body = json!({ "number": 1, "to": null });
    let long = format!("a={}", "x".repeat(257));
    for label in [
        "order",
        "Order=1",
        "order=",
        "a=1,a=2",
        &long,
        "a=\u{202e}b",
    ] {
        let problem = send(&site, &body, &[label])
            .await
            .problem(422, "invalid-label");
        assert_eq!(problem["pointer"], "Counterstep-Label", "{label}");
    }
    let seventeen: Vec<String> = (0..17).map(|n| format!("n{n}=x")).collect();
    let seventeen = seventeen.join(",");
    send(&site, &body, &[&seventeen])
        .await
        .problem(422, "invalid-label");
    // With the declared one these are too many as well.
    let sixteen = seventeen
        .replace("n16=x", "")
        .trim_end_matches(',')
        .to_owned();
    send(&site, &body, &[&sixteen])
        .await
        .problem(422, "invalid-label");
    // A client may say what the type says, and nothing else.
    let problem = send(&site, &body, &["parcel=2"])
        .await
        .problem(422, "invalid-label");
    assert_eq!(problem["pointer"], "Counterstep-Label: parcel");
    let control = json!({ "number": 1, "to": "a\nb" });
    let problem = send(&site, &control, &[])
        .await
        .problem(422, "invalid-label");
    assert_eq!(problem["pointer"], "Counterstep-Label: ship.to");
    assert_eq!(site.tasks().await, 0);
    send(&site, &body, &["parcel=1"])
        .await
        .json::<Accepted>(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_keeps_the_labels_of_the_first() {
    let site = Site::start().await;
    let mut tasks = Vec::new();
    for label in ["try=1", "try=2"] {
        let request = site
            .request("POST", PARCELS)
            .header("content-type", "application/json")
            .header("idempotency-key", "k")
            .header("counterstep-label", label)
            .body(r#"{"number":1,"to":null}"#);
        tasks.push(site.send(request).await.json::<Accepted>(202).task_id);
    }
    assert_eq!(tasks[0], tasks[1]);
    assert_eq!(view(&site, tasks[0]).await.labels.get("try"), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_goes_by_labels_states_and_times_and_pages_through_them() {
    let site = Site::start().await;
    let mut made = Vec::new();
    for number in 0..5 {
        made.push(sent(&site, number, &["order=4711"]).await);
        sent(&site, number + 100, &["order=4712"]).await;
    }
    let third = made[3];
    // The newest first; of two of one millisecond, by their ids.
    made.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(listed(&site, "label=order=4711").await, made);
    assert_eq!(
        listed(&site, "label=order%3D4711&label=parcel%3D3").await,
        [third]
    );
    assert_eq!(
        listed(&site, "label=order=4711&status=completed&status=failed").await,
        []
    );
    assert_eq!(
        listed(
            &site,
            "label=order=4711&status=completed&status=dispatched&type=parcel"
        )
        .await,
        made
    );
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = page(&site, &format!("label=order=4711&limit=2{cursor}")).await;
        seen.extend(page.items.iter().map(|task| task.task_id));
        let Some(next) = page.next_cursor else { break };
        // Of this list only.
        let other = format!("/api/tasks?label=order=4712&limit=2&cursor={next}");
        site.get(&other).await.problem(400, "malformed-parameter");
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, made);
    assert_eq!(
        listed(&site, "since=2001-09-09T01:46:40Z&label=order=4711").await,
        made
    );
    assert_eq!(listed(&site, "until=2001-09-09T01:46:40Z").await, []);
    assert_eq!(listed(&site, "since=2901-09-09T01:46:40%2B02:00").await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_task_is_found_by_its_failure_and_shown_with_its_labels() {
    let site = Site::start().await;
    site.run_worker();
    let body = json!({ "number": 7, "to": null, "lost": true });
    let task = send(&site, &body, &["order=1"])
        .await
        .json::<Accepted>(202)
        .task_id;
    site.until(task, TaskStatus::DeadLettered).await;
    let letters: Page<DeadLetter> = site.get("/api/dead-letters").await.json(200);
    assert_eq!(
        json!(letters.items[0].labels),
        json!({ "order": "1", "parcel": "7" })
    );
    assert_eq!(listed(&site, "failure_class=permanent").await, [task]);
    for class in ["lost", "in_doubt", "replaced", "unreadable", "deadline"] {
        assert_eq!(listed(&site, &format!("failure_class={class}")).await, []);
    }
    for (text, expected) in [("parcel%207%20is", vec![task]), ("parcel%208", vec![])] {
        let query = format!("type=parcel&failure_text={text}");
        assert_eq!(listed(&site, &query).await, expected, "{text}");
    }
    let since = "since=2001-09-09T01:46:40Z&failure_text=lost&label=parcel=7";
    assert_eq!(listed(&site, since).await, [task]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_is_none_is_refused() {
    let site = Site::start().await;
    for (query, pointer) in [
        ("failure_text=x", "failure_text"),
        ("failure_text=x&label=a=b", "failure_text"),
        ("failure_text=&type=parcel", "failure_text"),
        ("failure_class=bad", "failure_class"),
        ("since=yesterday", "since"),
        ("until=2h", "until"),
        ("status=nope", "status"),
        ("type=a&type=b", "type"),
    ] {
        let problem = site.get(&format!("/api/tasks?{query}")).await;
        let problem = problem.problem(422, "invalid-request");
        assert_eq!(problem["pointer"], pointer, "{query}");
    }
    for query in [
        "label=order",
        "label=Order=1",
        "label=a=",
        "label=a=1&label=a=2",
    ] {
        let problem = site.get(&format!("/api/tasks?{query}")).await;
        assert_eq!(
            problem.problem(422, "invalid-label")["pointer"],
            "label",
            "{query}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_schedule_submits_has_the_labels_of_its_declaration() {
    let site = Site::start().await;
    let put = site
        .request("PUT", "/api/schedules/parcels")
        .header("content-type", "application/json")
        .body(r#"{"type":"parcel","cron":"@yearly","request":{"number":9,"to":null}}"#);
    assert_eq!(site.send(put).await.status, 201);
    let run = site
        .send(site.request("POST", "/api/schedules/parcels/run"))
        .await;
    let task = run.json::<Accepted>(202).task_id;
    assert_eq!(
        json!(view(&site, task).await.labels),
        json!({ "parcel": "9" })
    );
    let trail: AuditTrail = site
        .get(&format!("/api/tasks/{task}/audit"))
        .await
        .json(200);
    let details = &trail.entries[0].details;
    assert_eq!(details["labels"], json!({ "parcel": "9" }));
    assert_eq!(details["scheduled"]["schedule"], "parcels");
}
