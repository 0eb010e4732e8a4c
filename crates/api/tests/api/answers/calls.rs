//! Which calls are made of a route. Must not know what they are answered.

use crate::access::{FullTenant, PLANTED};
use crate::site::eventually;
use crate::types::LINE;
use crate::workers::{WORKER, registered};
use counterstep_api::RouteView;
use counterstep_contracts::QueueName;
use counterstep_contracts::link::ResultLink;
use counterstep_kernel::dead_letters::poison;
use counterstep_kernel::ports::{Poison, PortsRuntime};
use counterstep_steps::breaker::{Breaker, Ticket, Verdict};
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) body: Option<Value>,
}

/// What is wrong with a call that is good but for it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bad {
    UnknownParameter,
    /// Also where the route takes no body.
    UnknownField,
    Note,
    /// This one of the segments that vary.
    Target(usize),
    OtherTenant,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownParameter => "unknown parameter",
            Self::UnknownField => "unknown field",
            Self::Note => "bad note",
            Self::Target(_) => "unknown target",
            Self::OtherTenant => "another tenant",
        })
    }
}

impl Bad {
    /// Those that apply to a route.
    pub(super) fn of(route: RouteView, good: &Call) -> Vec<Self> {
        // What has none yet is made by the call, and a task type is of all tenants.
        let makes = ["/api/schedules/{name}", "/api/views/{name}"].contains(&route.path);
        let makes = route.method == "PUT" && makes;
        let is_of_type = ["/api/tasks/{id}", "/api/tasks/{id}/batch"].contains(&route.path);
        let is_of_type = route.method == "POST" && is_of_type;
        let mut found = vec![Self::UnknownParameter];
        if ["POST", "PUT"].contains(&route.method) {
            found.push(Self::UnknownField);
        }
        if good
            .body
            .as_ref()
            .is_some_and(|body| body.get("note").is_some())
        {
            found.push(Self::Note);
        }
        let targets = segments(route.path).filter(|(_, it)| it.starts_with('{'));
        let targets: Vec<_> = targets.map(|(at, _)| Self::Target(at)).collect();
        if !targets.is_empty() && !makes {
            found.extend(&targets);
            if route.role.is_some() && !is_of_type {
                found.push(Self::OtherTenant);
            }
        }
        found
    }

    pub(super) fn call(self, good: &Call) -> Call {
        let mut call = good.clone();
        match self {
            Self::OtherTenant => {}
            Self::UnknownParameter => {
                let joined = if call.path.contains('?') { '&' } else { '?' };
                call.path += &format!("{joined}unheard-of=1");
            }
            Self::UnknownField => {
                let body = call.body.get_or_insert_with(|| json!({}));
                let object = if body.is_array() { &mut body[0] } else { body };
                object["unheard_of"] = json!(1);
            }
            Self::Note => call.body.as_mut().expect("a body")["note"] = json!(" "),
            Self::Target(at) => call.path = unknown(&call.path, at),
        }
        call
    }
}

fn segments(path: &str) -> impl Iterator<Item = (usize, &str)> {
    path.split('/').enumerate()
}

/// The path with another segment there, of the same kind.
fn unknown(path: &str, at: usize) -> String {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (path, String::new()),
    };
    let other = |(no, segment): (usize, &str)| match segment.len() {
        _ if no != at => segment.to_owned(),
        36 => "01930d2c-6c4b-7d5e-8f00-0123456789ab".to_owned(),
        _ if segment.parse::<u8>().is_ok() => "99".to_owned(),
        _ => "unheard-of".to_owned(),
    };
    let segments: Vec<_> = segments(path).map(other).collect();
    segments.join("/") + &query
}

/// A call that is answered as asked, about something that is newly made.
pub(super) async fn good(route: RouteView, takes_body: bool, own: &mut FullTenant<'_>) -> Call {
    let (path, body) = path_and_body(route, own).await;
    begin(&path, own).await;
    let sends = ["POST", "PUT"].contains(&route.method) && takes_body;
    Call {
        method: route.method,
        path,
        body: sends.then_some(body),
    }
}

/// What a call ends, or a list shows, has begun.
async fn begin(path: &str, own: &FullTenant<'_>) {
    let note = json!({"note": NOTE});
    let (method, begins, body) = match path.rsplit_once('/') {
        Some((of, "resume")) => ("POST", format!("{of}/pause"), note),
        Some((of, "enable")) => ("POST", format!("{of}/disable"), note),
        Some((_, "reset" | "limits")) => {
            let limit = json!({"at_once": 1, "note": NOTE});
            ("PUT", "/api/limits/bank".to_owned(), limit)
        }
        Some((_, "gates")) => ("POST", "/api/queues/asks/pause".to_owned(), note),
        Some((_, "queues")) => ("POST", format!("{path}/asks/pause"), note),
        _ => return,
    };
    let begun = own.ask(method, &begins, &body.to_string()).await;
    begun.assert_status(200);
}

const NOTE: &str = "seen to";

async fn path_and_body(route: RouteView, own: &mut FullTenant<'_>) -> (String, Value) {
    let note = json!({"note": NOTE});
    let named = |name: &str| route.path.replace("{name}", name).replace("{id}", name);
    let note_of = json!({"text": "hello"});
    match (route.method, route.path) {
        ("POST", "/api/tasks/{id}") => (named("write-note"), note_of),
        ("POST", "/api/tasks/{id}/batch") => (
            named("write-note"),
            json!([{"key": "one", "request": note_of}]),
        ),
        ("GET", "/api/tasks/{id}/children") => (named(&parent(own).await), Value::Null),
        ("GET", "/api/task-types/{id}/durations") => {
            own.task_in("write-note", "completed").await;
            (named("write-note"), Value::Null)
        }
        ("GET", "/api/tasks/{id}/at") => {
            let id = own.task_in("write-note", "completed").await;
            (named(&id) + "?seq=1", Value::Null)
        }
        ("GET", "/api/tasks/{id}/log") => (named(&logging(own).await), Value::Null),
        ("GET", "/api/tasks/{id}/plan" | "/api/tasks/{id}/why") => {
            let id = own.task_in("asks-a-person", "dead_lettered").await;
            (named(&id), Value::Null)
        }
        ("GET", "/api/links/{id}/{name}" | "/api/links/{id}/{name}/{index}") => {
            (link(own, route).await, Value::Null)
        }
        ("PUT", "/api/schedules/{name}") => {
            let spec = json!({"type": "WriteNote", "request": note_of, "cron": "30 2 * * *"});
            (named("nightly"), spec)
        }
        ("PUT", "/api/views/{name}") => (named("late"), json!({"q": "status:open until:2h"})),
        ("PUT", "/api/limits/{name}") => (named("bank"), json!({"at_once": 1, "note": NOTE})),
        (_, "/api/limits/{name}/reset") => (named("bank"), note),
        (_, "/api/queues/{name}/pause" | "/api/queues/{name}/resume") => (named("notes"), note),
        ("GET", "/api/workers/{worker_id}") => {
            registered(own.site).await;
            (route.path.replace("{worker_id}", WORKER), Value::Null)
        }
        (_, "/api/workers/{machine}/pause" | "/api/workers/{machine}/resume") => {
            let machine = registered(own.site).await;
            (route.path.replace("{machine}", &machine), note)
        }
        (_, "/api/task-types/{id}/disable" | "/api/task-types/{id}/enable") => {
            (named("write-note"), note)
        }
        (_, "/api/breakers/{name}/close") => {
            open_breaker(own).await;
            (named("line"), note)
        }
        ("DELETE", "/api/poison-messages/{id}") => (named(&poison_message(own).await), note),
        ("POST", "/api/bulk-operations") => (
            named(""),
            json!({"action": "redrive", "filter": {}, "note": NOTE}),
        ),
        ("POST", "/api/keys") => (named(""), json!({"subject": "shop", "role": "submit"})),
        ("POST", "/api/alerts/test") => (named(""), note),
        ("GET", path) if !path.contains('{') => {
            list(path, own).await;
            (path.to_owned(), Value::Null)
        }
        (_, path) if route.role.is_some() && !route.is_of_installation => {
            // One that an earlier call was about.
            own.ask("DELETE", &format!("/api/schedules/{PLANTED}"), "")
                .await;
            let found = own.target(route).await;
            let found = found.expect("it leads to something of a tenant");
            if path.contains("/webhooks") {
                let list = found.0.split("/webhooks").next().expect("a task");
                all_are(own, &format!("{list}/webhooks"), "delivered").await;
            }
            if path.starts_with("/api/bulk-operations/") {
                all_are(own, "/api/bulk-operations", "done").await;
            }
            found
        }
        (method, path) => panic!("no call is made of {method} {path}"),
    }
}

/// Makes something that a list shows.
async fn list(path: &str, own: &mut FullTenant<'_>) {
    match path {
        "/api/tasks" | "/api/events" => drop(own.task_in("write-note", "completed").await),
        "/api/dead-letters" | "/api/dead-letters/groups" => {
            own.task_in("asks-a-person", "dead_lettered").await;
        }
        "/api/poison-messages" => drop(poison_message(own).await),
        "/api/bulk-operations" => {
            own.bulk().await;
            all_are(own, path, "done").await;
        }
        "/api/schedules" => own.schedule().await,
        "/api/views" => own.view().await,
        "/api/keys" => drop(own.key().await),
        "/api/alerts" => {
            let sent = own.ask("POST", "/api/alerts/test", "").await;
            sent.assert_status(202);
            all_are(own, path, "delivered").await;
        }
        "/api/breakers" => open_breaker(own).await,
        _ => {}
    }
}

/// Waits until each item of a list stands so.
async fn all_are(own: &FullTenant<'_>, path: &str, status: &str) {
    eventually(status, || async {
        let page: Value = own.ask("GET", path, "").await.json(200);
        let items = page["items"].as_array().expect("items");
        match items.iter().all(|it| it["status"] == status) && !items.is_empty() {
            true => Ok(()),
            false => Err(page),
        }
    })
    .await;
}

async fn parent(own: &mut FullTenant<'_>) -> String {
    let request = json!({"front": [{"act": "book"}, {"act": "book"}]});
    let id = own.submit("rows", &request).await;
    own.until(&id, "completed").await;
    id
}

/// A task that has written two lines.
async fn logging(own: &mut FullTenant<'_>) -> String {
    let id = own.task("plod").await;
    eventually("two lines", || async {
        let log: Value = own
            .ask("GET", &format!("/api/tasks/{id}/log"), "")
            .await
            .json(200);
        match log["lines"].as_array().map(Vec::len) {
            Some(2) => Ok(()),
            _ => Err(log),
        }
    })
    .await;
    id
}

async fn link(own: &mut FullTenant<'_>, route: RouteView) -> String {
    let of_task = RouteView {
        path: match route.path.contains("{index}") {
            true => "/api/tasks/{id}/result/{name}/{index}/link",
            false => "/api/tasks/{id}/result/{name}/link",
        },
        ..route
    };
    let (path, _) = own.target(of_task).await.expect("a file");
    let link: ResultLink = own.ask("POST", &path, "{}").await.json(200);
    link.url
}

async fn open_breaker(own: &FullTenant<'_>) {
    let ports = &own.site.engine.ports;
    let runtime = Arc::new(PortsRuntime::from(ports));
    let breaker = Breaker::new("line", LINE, ports.hints.clone(), runtime);
    breaker.report(Ticket::default(), Verdict::Failed).await;
}

/// The id of a message that no host can read.
async fn poison_message(own: &FullTenant<'_>) -> String {
    let message = Poison::new(
        PLANTED.into(),
        "work.x".into(),
        &"{".into(),
        "no JSON".into(),
    );
    let queue = QueueName("files".into());
    let kept = poison::keep(&own.site.engine.ports.store, &queue, &message);
    kept.await.expect("kept");
    let page: Value = own.ask("GET", "/api/poison-messages", "").await.json(200);
    page["items"][0]["id"].as_str().expect("an id").to_owned()
}
