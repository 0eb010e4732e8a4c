//! One example for each body. A test reads each as the type that it is an example of.

use serde_json::{Value, json};

const TASK: &str = "01930d2c-6c4b-7d5e-8f00-0123456789ab";
const MADE: &str = "2026-11-20T18:00:00.000000Z";
const CHANGED: &str = "2026-11-20T18:00:02.000000Z";

pub(super) fn accepted() -> Value {
    json!({ "task_id": TASK, "status": "dispatched" })
}

pub(super) fn batch() -> Value {
    json!([{ "key": "o-1", "request": { "seat": "4A" } }])
}

pub(super) fn batch_answer() -> Value {
    let detail = "missing field `seat`";
    json!({ "items": [
        { "outcome": "accepted", "task_id": TASK, "status": "dispatched" },
        { "outcome": "refused", "problem": {
            "type": "urn:counterstep:problem:invalid-request", "code": "invalid-request",
            "title": "The request is not valid", "status": 422, "detail": detail, "pointer": "seat",
        }},
    ]})
}

fn step(no: u32, name: &str, status: &str, attempts: u32) -> Value {
    json!({ "no": no, "name": name, "status": status, "attempts": attempts, "undo_attempts": 0 })
}

pub(super) fn running() -> Value {
    let mut zipping = step(2, "create_zip_archive", "running", 1);
    zipping["progress"] =
        json!({ "done": 1, "total": 2, "percent": 50, "message": "report.pdf", "at": CHANGED });
    json!({
        "task_id": TASK, "task_type": "CreateZipFromFiles", "version": 1, "status": "running",
        "labels": { "order": "4711" }, "cancel_requested": false, "residue": false, "revision": 5,
        "created_at": MADE, "updated_at": CHANGED, "recovery_attempts": 0,
        "progress": { "done": 1, "total": 3 },
        "steps": [
            step(1, "upload_source_files", "completed", 1),
            zipping,
            step(3, "upload_zip", "pending", 0),
        ],
    })
}

pub(super) fn completed() -> Value {
    json!({
        "task_id": TASK, "task_type": "BookSeat", "version": 1, "status": "completed",
        "cancel_requested": false, "residue": false, "revision": 7,
        "created_at": MADE, "updated_at": CHANGED, "finished_at": CHANGED, "recovery_attempts": 0,
        "progress": { "done": 1, "total": 1 },
        "steps": [step(1, "reserve", "completed", 1)],
        "response": "paid for 4A",
    })
}

pub(super) fn history() -> Value {
    json!({ "samples": [{
        "at": CHANGED, "millis": 10_000, "submitted": 42, "ended": { "completed": 40, "failed": 1 },
        "tasks": { "dispatched": 3, "running": 8 }, "waiting": { "default": 3 }, "oldest_due_seconds": 1,
        "workers_alive": 4, "workers_lost": 0, "slots": 32, "slots_busy": 8,
    }]})
}

pub(super) fn live() -> Value {
    json!({ "status": "ok" })
}

pub(super) fn ready() -> Value {
    let parts = json!({ "store": "ok", "objects": "ok", "queue": "ok", "hints": "ok" });
    json!({ "status": "ok", "parts": parts })
}

pub(super) fn document() -> Value {
    json!({ "openapi": "3.1.0", "info": { "title": "Counterstep" }, "paths": {} })
}

pub(super) fn new_link_request() -> Value {
    json!({ "valid_for": "1h" })
}

pub(super) fn link() -> Value {
    json!({
        "url": "/api/links/01930d2c-6c4b-7d5e-8f00-0123456789ab/zip?tenant=default&expires=1795480000&signature=…",
        "expires_at": "2026-11-24T00:26:40Z",
    })
}
