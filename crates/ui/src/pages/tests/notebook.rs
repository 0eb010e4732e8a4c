//! An interface that answers what pages ask, and writes down what would change anything.

use crate::port::{Api, ApiRequest};
use actix_web::HttpResponse;
use actix_web::http::{Method, StatusCode};
use actix_web::web::Bytes;
use counterstep_contracts::operation::About;
use counterstep_contracts::operator::OperatorMove;
use counterstep_contracts::{Problem, ProblemCode};
use futures::TryStreamExt;
use futures::future::LocalBoxFuture;
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

pub(super) const ID: &str = "01930d2c-6c4b-7d5e-8f00-0123456789ab";
const TIME: &str = "2026-01-01T00:00:00Z";

/// What the interface was sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sent {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

/// An interface that writes down what would change anything.
#[derive(Default)]
pub(super) struct Notebook {
    /// Whether nothing has happened yet behind it.
    pub(super) is_new: Cell<bool>,
    /// Fields of the schedule, in place of its own.
    pub(super) nightly: RefCell<Map<String, Value>>,
    pub(super) sent: RefCell<Vec<Sent>>,
    pub(super) refuses: Cell<Option<ProblemCode>>,
}

impl Api for Rc<Notebook> {
    fn call(&self, request: ApiRequest) -> LocalBoxFuture<'static, HttpResponse> {
        let book = self.clone();
        Box::pin(async move {
            let path = request.target.to_string();
            if request.method == Method::GET {
                let first = book.is_new.get().then(|| nothing_of(&path)).flatten();
                let of_nightly = path.starts_with("/api/schedules/nightly");
                let nightly = of_nightly.then(|| HttpResponse::Ok().json(book.nightly()));
                return first.or(nightly).unwrap_or_else(|| known(&path));
            }
            let chunks = request.body.try_collect::<Vec<Bytes>>().await;
            let body = String::from_utf8(chunks.expect("a body").concat()).expect("a text");
            let value: Value = serde_json::from_str(&body).unwrap_or_default();
            if value["preview"] == true {
                return HttpResponse::Ok()
                    .json(json!({"count": 3, "complete": true, "tasks": [ID]}));
            }
            let of_people = ["content-type", "idempotency-key", "counterstep-label"];
            let headers = request.headers.iter().filter_map(|(name, value)| {
                let is_shown = of_people.contains(&name.as_str());
                is_shown.then(|| (name.to_string(), value.to_str().expect("a text").to_owned()))
            });
            book.sent.borrow_mut().push(Sent {
                method: request.method.to_string(),
                path,
                headers: headers.collect(),
                body,
            });
            match book.refuses.get() {
                Some(code) => refusal(code),
                None => HttpResponse::Accepted()
                    .json(json!({"task_id": ID, "status": "submitted", "id": "b1"})),
            }
        })
    }
}

impl Notebook {
    fn nightly(&self) -> Map<String, Value> {
        let own = json!({
            "name": "nightly", "type": "CountStock", "cron": "0 3 * * *", "origin": "code", "paused": false,
            "request": {"title": "all"}, "revision": 1, "created_at": TIME, "updated_at": TIME,
            "upcoming": ["2026-01-02T03:00:00Z"],
        });
        let mut fields = own.as_object().cloned().unwrap_or_default();
        fields.extend(self.nightly.borrow().clone());
        fields
    }
}

fn refusal(code: ProblemCode) -> HttpResponse {
    let problem = Problem::new(code, "the reason of the interface");
    let status = StatusCode::from_u16(problem.status).expect("a status");
    HttpResponse::build(status).json(problem)
}

/// Lists, where nothing has happened yet.
fn nothing_of(path: &str) -> Option<HttpResponse> {
    let parts: Vec<_> = path.split(['/', '?']).skip(2).collect();
    let body = match parts.as_slice() {
        ["workers"] => json!({
            "status": {"tasks": [], "workers_alive": 0, "workers_lost": 0}, "workers": [],
        }),
        ["dead-letters", "groups", ..] => {
            json!({"groups": [], "counted": 0, "others": 0, "complete": true})
        }
        ["open-effects", "sums"] => {
            json!({"sums": [], "tasks": 0, "unknown": 0, "complete": true})
        }
        ["task-types", _, "durations", ..] => json!({"ended": {}, "steps": [], "hours": []}),
        [
            "tasks" | "dead-letters" | "open-effects" | "schedules" | "bulk-operations",
            query,
        ] if query.contains('=') => {
            json!({"items": []})
        }
        ["tasks" | "task-types" | "schedules" | "queues" | "limits" | "bulk-operations"] => {
            json!({"items": []})
        }
        _ => return None,
    };
    Some(HttpResponse::Ok().json(body))
}

/// What stands behind the pages.
fn known(path: &str) -> HttpResponse {
    let parts: Vec<_> = path.split(['/', '?']).skip(1).collect();
    let of = |body: Value| HttpResponse::Ok().json(body);
    match parts.as_slice() {
        ["api", "caller"] => {
            of(json!({"tenant": "default", "role": "admin", "is_of_installation": true}))
        }
        ["api", "tasks", query] if query.contains("limit=") => of(listed(query)),
        ["api", "tasks", status] => of(task(status)),
        ["api", "tasks", status, "why"] => of(json!({
            "task_id": ID, "status": status, "because": [], "operator_can": moves(status),
        })),
        ["api", "tasks", _, "audit"] => of(json!({"task_id": ID, "entries": [], "attempts": []})),
        ["api", "limits"] => of(json!({"items": [
            {"name": "carrier", "declared": {"at_once": 20, "rate": {"starts": 500, "per": "1s"}, "scope": "all"}, "uses": []},
            {"name": "free", "uses": []},
        ]})),
        ["api", "breakers"] => of(json!({"items": [{"name": "carrier", "state": "open"}]})),
        ["api", "workers"] => of(json!({
            "status": {"tasks": [], "workers_alive": 1, "workers_lost": 0},
            "workers": [{
                "id": "worker:1", "role": "worker", "state": "alive", "machine": "w1", "program": "1", "queues": ["lamps"],
                "task_types": [], "concurrency": 1, "running_count": 0, "running": [], "heavy": 1, "heavy_count": 0,
                "abandoned_count": 0, "started_at": TIME, "seen_at": TIME,
            }],
        })),
        ["api", "views"] => of(json!({"items": [
            {"name": "late", "q": "status:open until:2h", "columns": "order", "by": "kim", "updated_at": TIME},
        ]})),
        ["api", "queues"] => of(json!({"items": [{"name": "lamps", "tasks": {}}]})),
        ["api", "schedules", query] if query.starts_with("limit=") => of(json!({"items": []})),
        ["api", "dead-letters", query] if query.starts_with("limit=") => of(json!({"items": [{
            "task_id": ID, "task_type": "OrderLamp", "version": 1, "status": "dead_lettered", "cause": {}, "created_at": TIME,
            "updated_at": TIME,
        }]})),
        ["api", "tasks", "completed" | ID, "payloads"] => of(payloads()),
        ["api", "task-types", _, "durations", query] if query.contains("label=order") => {
            HttpResponse::UnprocessableEntity()
                .json(Problem::new(ProblemCode::InvalidLabel, "not by it"))
        }
        ["api", "task-types", _, "durations", ..] => of(durations()),
        ["api", "dead-letters", "groups", ..] => of(json!({
            "groups": [{"id": "00112233aabbccdd", "task_type": "OrderLamp", "cause": {}, "text": "no lamp #", "count": 3,
                "by_status": {"failed": 3}, "first_at": TIME, "last_at": TIME, "first_program": "0.9.1",
                "example": ID}],
            "counted": 3, "others": 0, "complete": true,
        })),
        ["api", "dead-letters", _] => of(json!({"items": []})),
        ["api", "task-types"] => {
            let signals = json!({"ship": approval()});
            of(json!({"items": [
                {"name": "OrderLamp", "version": 1, "steps": [], "signals": signals},
                {"name": "CountStock", "version": 1, "steps": []}, {"name": "Zip", "version": 1, "steps": []},
            ]}))
        }
        ["api", "bulk-operations", _, "tasks"] => of(json!({"items": []})),
        ["api", "bulk-operations", id, ..] => of(json!({
            "id": id, "action": "redrive", "filter": {}, "note": "", "actor": "kim",
            "status": if *id == "b2" { "paused" } else { "running" },
            "done": 0, "failed": 0, "skipped": 0, "created_at": TIME, "updated_at": TIME,
        })),
        ["api", "openapi.json"] => of(document()),
        _ => HttpResponse::NotFound().json(Problem::new(ProblemCode::NoSuchRoute, "not here")),
    }
}

/// A task with a label, and how the search was read: by its saved view alone.
fn listed(query: &str) -> Value {
    let of_view = query.contains("view%3Alate");
    let term = of_view
        .then(|| json!({"term": "view:late", "read_as": "view", "fits": ["status:open until:2h"]}));
    json!({
        "items": [{
            "task_id": ID, "task_type": "OrderLamp", "status": "running", "labels": {"order": "4711"}, "created_at": TIME,
            "updated_at": TIME,
        }],
        "search": {"terms": Vec::from_iter(term)},
    })
}

/// Of tasks that took a second, and a step that takes longer.
pub(super) fn durations() -> Value {
    let took = json!({"count": 40, "p50_ms": 1_000, "p95_ms": 2_000, "p99_ms": 60_000});
    let mut ship = took.clone();
    ship["step"] = json!("ship");
    ship["max_ms"] = json!(61_000);
    ship["slowest"] = json!(ID);
    let hour = |back: i64| {
        let at = crate::time_text::now() - back * 3_600_000_000;
        json!({"hour": crate::time_text::rfc3339(at - at.rem_euclid(3_600_000_000)), "ended": {"completed": 40},
            "tasks": took, "steps": [ship]})
    };
    json!({
        "ended": {"completed": 40, "failed": 3, "dead_lettered": 2}, "tasks": took, "steps": [ship], "hours": [hour(3), hour(2), hour(0)],
        "counted_until": TIME, "slower_than": 97, "labels": ["customer"], "values": ["4711"],
    })
}

/// A move of the task.
fn can(name: &str, operation: &str, does: &str, body: Option<Value>) -> OperatorMove {
    let about = About::of_operation(operation).expect("an operation");
    OperatorMove {
        name: name.to_owned(),
        operation: Some(operation.to_owned()),
        method: about.verb.name().to_owned(),
        path: about.address(&[ID, "ship"]),
        body,
        role: about.access.role(),
        title: name.replace('-', " "),
        does: does.to_owned(),
        button: "Do it".to_owned(),
        ..OperatorMove::default()
    }
}

/// Those that the interface offers of a task in this state.
fn moves(status: &str) -> Vec<OperatorMove> {
    let of_step = |can: OperatorMove, asks: &[&str]| OperatorMove {
        step: Some("ship".to_owned()),
        asks: asks.iter().map(|it| (*it).to_owned()).collect(),
        ..can
    };
    let asks = |can: OperatorMove, asks: &[&str]| OperatorMove {
        asks: asks.iter().map(|it| (*it).to_owned()).collect(),
        ..can
    };
    let note = || Some(json!({"note": "why"}));
    let resolve = |name: &str, does: &str, body: Value| {
        let mut body = body;
        body["note"] = json!("why");
        can(name, "resolveTask", does, Some(body))
    };
    let step = |settled: &str| json!({"as": settled, "step": "ship"});
    let cancel = || {
        can(
            "cancel",
            "cancelTask",
            "cancels it: what it has done is undone",
            None,
        )
    };
    let again = || can("retry", "retryTask", "runs what gave up again", note());
    let ends = |name: &str, settled: &str| {
        resolve(name, "ends the task as resolved", json!({"as": settled}))
    };
    match status {
        "dead_lettered" => vec![
            asks(again(), &["patch"]),
            can(
                "undo",
                "retryTask",
                "undoes what it has done",
                Some(json!({"direction": "undo", "note": "why"})),
            ),
            of_step(
                resolve(
                    "step-done",
                    "gives the step the output",
                    json!({"as": "done", "step": "ship", "output": null}),
                ),
                &["output"],
            ),
            ends("settle-undone", "undone"),
            ends("settle-done", "done"),
            ends("settle-skipped", "skipped"),
            ends("settle-not-needed", "not_needed"),
        ],
        "compensation_failed" => vec![
            again(),
            of_step(
                resolve("step-undone", "undoes the others", step("undone")),
                &[],
            ),
            of_step(
                resolve(
                    "step-skipped",
                    "leaves the effects of the step",
                    step("skipped"),
                ),
                &[],
            ),
        ],
        "waiting" => vec![of_step(
            can("signal", "sendSignal", "answers ship", None),
            &["body"],
        )],
        "running" => vec![
            cancel(),
            can(
                "recount",
                "setRecoveries",
                "counts none of its losses any more",
                Some(json!({"recovery_attempts": 0, "note": "why"})),
            ),
            // Of a task that it waits for, and what is about no task: no decision about this one.
            OperatorMove {
                path: "/api/tasks/01930d2c-6c4b-7d5e-8f00-0123456789ac".to_owned(),
                ..cancel()
            },
            can(
                "resume-queue",
                "resumeQueue",
                "lets processes claim tasks of the queue again",
                note(),
            ),
        ],
        "completed" => {
            let again = can(
                "run-again",
                "runTaskAgain",
                "runs it again, as a new task",
                note(),
            );
            vec![asks(again, &["from", "patch"])]
        }
        _ => Vec::new(),
    }
}

fn task(status: &str) -> Value {
    let step = |no: u32, name: &str, status: &str| json!({"no": no, "name": name, "status": status, "attempts": 1, "undo_attempts": 0});
    let (of_ship, waits) = match status {
        "dead_lettered" => ("failed", None),
        "compensation_failed" => ("compensation_failed", None),
        "waiting" => ("waiting", Some("signal")),
        "running" => ("running", None),
        _ => ("completed", None),
    };
    json!({
        "task_id": ID, "task_type": "OrderLamp", "version": 1, "status": status, "waiting_for": waits,
        "cancel_requested": false, "residue": false, "revision": 1, "created_at": TIME, "updated_at": TIME,
        "recovery_attempts": 1, "progress": {"done": 1, "total": 2},
        "steps": [step(1, "reserve", "completed"), step(2, "ship", of_ship)],
    })
}

/// Of a type that takes JSON, and of one that takes files.
fn document() -> Value {
    let example = json!({"name": "Aurora", "price": 2.5});
    let form = json!({"required": ["title", "files"], "properties": {
        "title": {"type": "string"}, "count": {"type": "integer"},
        "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "cover": {"type": "string", "format": "binary"},
    }});
    json!({"paths": {
        "/api/tasks/order-lamp": {"post": {"requestBody": {"content": {"application/json": {"example": example}}}}},
        "/api/tasks/count-stock": {"post": {"requestBody": {"content": {"application/json": {
            "schema": {"$ref": "#/components/schemas/Stock"}, "example": {"title": "an example"},
        }}}}},
        "/api/tasks/zip": {"post": {"requestBody": {"content": {"multipart/form-data": {"schema": form}}}}},
    }, "components": {"schemas": {"Stock": {"type": "object", "required": ["title"], "properties": {
        "title": {"type": "string"}, "count": {"type": "integer"},
    }}}}})
}

/// What is sent to a step that waits for it.
fn approval() -> Value {
    json!({"$ref": "#/$defs/Approval", "$defs": {"Approval": {
        "type": "object", "required": ["by", "is_urgent"], "properties": {
            "by": {"type": "string"}, "amount": {"type": ["number", "null"]}, "is_urgent": {"type": "boolean"},
            "note": {"type": "string", "description": "What was said."},
        },
    }}})
}

/// A short request, a long output and one that is not there.
pub(super) fn payloads() -> Value {
    json!({
        "task_id": ID, "request": {"name": "<b>Aurora</b>"},
        "outputs": [
            {"step": "reserve", "output": (0..20).collect::<Vec<_>>()}, {"step": "ship", "output": null},
        ],
    })
}
