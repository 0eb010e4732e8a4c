//! The example of the body that shows a dead letter.

use super::examples::{CHANGED, GROUP, MADE, TASK, cause, failure, step};
use serde_json::{Value, json};

pub(super) fn one() -> Value {
    json!({
        "task_id": TASK, "task_type": "BookSeat", "version": 1, "status": "dead_lettered",
        "created_at": MADE, "updated_at": CHANGED, "failure": failure(), "cause": cause(), "group": GROUP,
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "worker": "worker:08a4bd91a6db",
        "request": { "seat": "4A", "card": "tok_1" }, "steps": [step(1, "charge", "failed", 1)],
        "attempts": [{
            "step": "charge", "direction": "forward", "attempt": 1, "epoch": 1,
            "worker": "worker:08a4bd91a6db", "outcome": "failed",
            "error": "the card was declined (permanent)", "started_at": MADE, "ended_at": CHANGED,
        }],
    })
}
