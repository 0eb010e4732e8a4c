//! Each route that changes something, while another host claims the task and the reply to the change is lost: a race
//! is answered by what came of it, or by 503 with the advice to ask again, and never by 500.

#[path = "races/dropped.rs"]
mod dropped;
#[path = "races/lossy_store.rs"]
mod lossy_store;
#[path = "races/views.rs"]
mod views;

use crate::access::all_is_on;
use crate::administration::kept_poison;
use crate::reply::Reply;
use crate::site::Site;
use crate::types::LINE;
use crate::workers::registered;
use counterstep_api::{ApiSettings, RouteView, all_routes};
use counterstep_contracts::http::{Accepted, Page};
use counterstep_contracts::webhook::DeliveryView;
use counterstep_contracts::{Host, TaskId, TaskStatus};
use counterstep_kernel::change::Author;
use counterstep_kernel::ports::{Ports, PortsRuntime};
use counterstep_kernel::webhooks::WebhookUrl;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_steps::breaker::{Breaker, Ticket, Verdict};
use counterstep_testkit::through::Through;
use lossy_store::{Fate, LostReplies};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Changes of one request, at most: what a batch or an upload needs.
const MOST_CHANGES: usize = 12;

/// A request, and the task that another host claims meanwhile.
struct Request {
    path: String,
    body: Value,
    task: Option<TaskId>,
}

impl Request {
    fn new(path: impl Into<String>, body: Value) -> Self {
        Self {
            path: path.into(),
            body,
            task: None,
        }
    }

    fn of(task: TaskId, path: &str, body: Value) -> Self {
        Self {
            path: path.replace("{id}", &task.to_string()),
            body,
            task: Some(task),
        }
    }
}

/// A task in this state. A worker runs until it is.
async fn task_in(site: &Site, task_type: &str, status: TaskStatus) -> TaskId {
    let path = format!("/api/tasks/{task_type}");
    let request = site.request("POST", &path);
    let request = request
        .header("content-type", "application/json")
        .header("counterstep-webhook", "http://127.0.0.1:1/")
        .body(r#"{"text":"hello"}"#);
    let task = site.send(request).await.json::<Accepted>(202).task_id;
    if status != TaskStatus::Dispatched {
        let worker = site.run_host(Host::Worker);
        site.until(task, status).await;
        worker.stop().await;
    }
    task
}

async fn put(site: &Site, path: &str, body: &Value) {
    let request = site.request("PUT", path);
    let request = request.header("content-type", "application/json");
    site.send(request.body(body.to_string())).await;
}

/// What a route is sent. A new route that changes something has a row here.
async fn request_for(site: &Site, route: RouteView) -> Request {
    let note = || json!({ "note": "x", "actor": "kim" });
    let parked = || task_in(site, "asks-a-person", TaskStatus::DeadLettered);
    let path = route.path;
    let schedule = || json!({ "type": "WriteNote", "request": { "text": "a" }, "cron": "30 2 * * *", "overlap": "allow" });
    let limit = || json!({ "at_once": 1, "note": "x", "actor": "kim" });
    match (route.method, path) {
        ("POST", "/api/tasks/{id}") => {
            Request::new("/api/tasks/write-note", json!({ "text": "hello" }))
        }
        ("POST", "/api/tasks/{id}/batch") => {
            let two = json!([{ "request": { "text": "a" } }, { "request": { "text": "b" } }]);
            Request::new("/api/tasks/write-note/batch", two)
        }
        ("DELETE", "/api/tasks/{id}") => {
            let task = task_in(site, "undoes-for-long", TaskStatus::Dispatched).await;
            Request::of(task, path, note())
        }
        ("POST", "/api/tasks/{id}/signals/{name}") => {
            let task = task_in(site, "ask-first", TaskStatus::Waiting).await;
            let path = path.replace("{name}", "permission");
            Request::of(task, &path, json!({ "by": "anna", "level": 3 }))
        }
        ("POST", "/api/tasks/{id}/webhooks/{webhook}/send") => {
            let task = task_in(site, "write-note", TaskStatus::Completed).await;
            let found = site.get(&format!("/api/tasks/{task}/webhooks")).await;
            let page: Page<DeliveryView> = found.json(200);
            Request::of(task, &path.replace("{webhook}", &page.items[0].id), note())
        }
        ("POST", "/api/tasks/{id}/resolve") => Request::of(
            parked().await,
            path,
            json!({ "as": "skipped", "note": "x", "actor": "kim" }),
        ),
        ("POST", "/api/tasks/{id}/retry") => Request::of(parked().await, path, note()),
        ("POST", "/api/tasks/{id}/run-again") => {
            let task = task_in(site, "write-note", TaskStatus::Completed).await;
            Request::of(task, path, note())
        }
        ("POST", "/api/tasks/{id}/recoveries") => {
            let more = json!({ "recovery_attempts": 0, "note": "x", "actor": "kim" });
            Request::of(parked().await, path, more)
        }
        ("DELETE", "/api/poison-messages/{id}") => Request::new(kept_poison(site).await, note()),
        ("POST", "/api/bulk-operations") => {
            let task = parked().await;
            let body = json!({ "action": "redrive", "filter": {}, "note": "x", "actor": "kim" });
            Request::of(task, path, body)
        }
        ("POST", path) if path.starts_with("/api/bulk-operations/{id}/") => {
            // The second of two has its turn in a minute: until then the operation runs.
            parked().await;
            parked().await;
            let body = json!({
                "action": "redrive", "filter": {}, "note": "x", "actor": "kim", "pace": { "per_minute": 1 },
            });
            let started = site.post("/api/bulk-operations", body.to_string()).await;
            let started: Value = started.json(202);
            let id = started["id"].as_str().expect("an id");
            let path = path.replace("{id}", id);
            if let Some(of) = path.strip_suffix("/resume") {
                site.post(&format!("{of}/pause"), "")
                    .await
                    .assert_status(200);
            }
            Request::new(path, note())
        }
        ("POST", "/api/tasks/{id}/result/{name}/link") => {
            let task = site.keep("a.txt", "text/plain", "hello").await;
            Request::of(task, &path.replace("{name}", "first"), json!({}))
        }
        ("POST", "/api/tasks/{id}/result/{name}/{index}/link") => {
            let task = site.keep("a.txt", "text/plain", "hello").await;
            let path = path.replace("{name}", "files").replace("{index}", "0");
            Request::of(task, &path, json!({}))
        }
        ("PUT", "/api/views/{name}") => Request::new("/api/views/late", json!({ "q": "open" })),
        ("DELETE", "/api/views/{name}") => {
            put(site, "/api/views/late", &json!({ "q": "open" })).await;
            Request::new("/api/views/late", Value::Null)
        }
        ("PUT", "/api/schedules/{name}") => Request::new("/api/schedules/daily", schedule()),
        (_, path) if path.starts_with("/api/schedules/{name}") => {
            put(site, "/api/schedules/nightly", &schedule()).await;
            if path.ends_with("/resume") {
                site.post("/api/schedules/nightly/pause", "").await;
            }
            Request::new(path.replace("{name}", "nightly"), note())
        }
        ("POST", "/api/task-types/{id}/disable" | "/api/task-types/{id}/enable") => {
            let other = if path.ends_with("/enable") {
                "disable"
            } else {
                "enable"
            };
            let other = format!("/api/task-types/strict/{other}");
            site.post(&other, note().to_string()).await;
            Request::new(path.replace("{id}", "strict"), note())
        }
        ("POST", "/api/queues/{name}/pause" | "/api/queues/{name}/resume") => {
            let other = if path.ends_with("/resume") {
                "pause"
            } else {
                "resume"
            };
            let other = format!("/api/queues/plods/{other}");
            site.post(&other, note().to_string()).await;
            Request::new(path.replace("{name}", "plods"), note())
        }
        ("POST", "/api/workers/{machine}/pause" | "/api/workers/{machine}/resume") => {
            let machine = registered(site).await;
            let other = if path.ends_with("/resume") {
                "pause"
            } else {
                "resume"
            };
            let other = format!("/api/workers/{machine}/{other}");
            site.post(&other, note().to_string()).await;
            Request::new(path.replace("{machine}", &machine), note())
        }
        ("PUT", "/api/limits/{name}") => Request::new("/api/limits/bank", limit()),
        ("POST", "/api/limits/{name}/reset") => {
            put(site, "/api/limits/bank", &limit()).await;
            Request::new("/api/limits/bank/reset", note())
        }
        ("POST", "/api/breakers/{name}/close") => {
            let ports = &site.engine.ports;
            let runtime = Arc::new(PortsRuntime::from(ports));
            let breaker = Breaker::new("line", LINE, ports.hints.clone(), runtime);
            breaker.report(Ticket::default(), Verdict::Failed).await;
            Request::new("/api/breakers/line/close", note())
        }
        ("POST", "/api/alerts/test") => Request::new(path, json!({})),
        ("POST", "/api/keys") => Request::new(path, json!({ "subject": "kim", "role": "read" })),
        ("DELETE", "/api/keys/{id}") => {
            let made: Value = site
                .post("/api/keys", r#"{"subject":"kim","role":"read"}"#)
                .await
                .json(201);
            let id = made["id"].as_str().expect("an id");
            Request::new(path.replace("{id}", id), note())
        }
        (method, path) => panic!("{method} {path} changes something: it needs a row here"),
    }
}

/// Another host claims the task, where it can be claimed.
async fn claim(engine: Engine, task: TaskId) {
    let record = engine.ports.store.load(task).await.expect("an answer");
    let Some(record) = record else { return };
    let task_type = engine.registry.of(&*record.task).expect("its type");
    let lease = Duration::from_secs(60);
    // What waits or is parked is not claimed.
    let _ = engine
        .change(Author::anyone(&engine.id), &task_type, record, |draft| {
            draft.claim("worker:other", lease)
        })
        .await;
}

async fn send(site: &Site, route: RouteView, request: &Request) -> Reply {
    let mut sent = site.request(route.method, &request.path);
    if route.method != "DELETE" {
        sent = sent
            .header("content-type", "application/json")
            .body(request.body.to_string());
    }
    site.send(sent).await
}

fn everything(api: &mut ApiSettings, engine: &mut EngineSettings) {
    all_is_on(api, engine);
    let url = WebhookUrl::parse("http://127.0.0.1:1/", &engine.webhook_allow);
    api.webhooks.as_mut().expect("webhooks").alerts = Some(url.expect("an address"));
    engine.alerts = true;
    api.workers = 1;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_route_answers_500_where_a_reply_is_lost_and_another_host_claims_the_task() {
    let site = Site::with(everything).await;
    let (lossy, store) = site
        .engine
        .ports
        .store
        .clone()
        .through(|store| Through::new(store, LostReplies::default()));
    let ports = Ports {
        store: lossy,
        ..site.engine.ports.clone()
    };
    let raced = site.beside_set(ports, everything);
    for route in all_routes().filter(|route| route.method != "GET") {
        let mut lost = 0;
        for fate in [Fate::Written, Fate::NeverWritten] {
            for after in 0..MOST_CHANGES {
                let request = request_for(&site, route).await;
                let (engine, task) = (site.engine.clone(), request.task);
                let claims = move || -> futures::future::BoxFuture<'static, ()> {
                    Box::pin(async move {
                        if let Some(task) = task {
                            claim(engine, task).await;
                        }
                    })
                };
                store.around.lose(after, fate, Box::new(claims));
                let reply = send(&raced, route, &request).await;
                let is_over = store.around.relent();
                let (status, text) = (reply.status, String::from_utf8_lossy(&reply.body));
                let what = format!("{route:?}, change {after} {fate:?}: {status} {text}");
                assert!(status < 500 || status == 503, "{what}");
                if is_over {
                    assert!((200..300).contains(&status), "the row is right: {what}");
                    break;
                }
                lost += 1;
            }
        }
        let makes_a_link = route.path.ends_with("/link");
        assert!(lost > 0 || makes_a_link, "{route:?}: no reply was lost");
    }
}
