//! Alerts of the installation.

use super::examples::{CHANGED, GROUP, TASK, webhook_secrets};

use crate::openapi::{CACHE_CONTROL, Operation, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::alert::AlertView;
use counterstep_contracts::http::Page;
use counterstep_contracts::operation::Chapter;
use counterstep_contracts::webhook::WebhookSecretsView;
use serde_json::{Value, json};

fn alert() -> Value {
    json!({
        "id": "dead_lettered_5f0c1e7ab2d94c33_491952", "event": "dead_lettered", "status": "delivered",
        "data": {
            "tenant": "default", "task_type": "BookSeat", "step": "charge", "class": "permanent",
            "text": "the card # was declined", "group": GROUP, "count": 4812, "example": TASK,
        },
        "attempts": 1, "last": "204", "updated_at": CHANGED,
    })
}

fn alerts() -> Value {
    json!({ "items": [alert()] })
}

fn test() -> Value {
    json!({
        "id": "test_01930d2c-6c4b-7d5e-8f00-0123456789ab", "event": "test", "status": "pending",
        "data": { "detail": "sent by operator:kim" }, "attempts": 0, "due_at": CHANGED, "updated_at": CHANGED,
    })
}

pub(in super::super) const LIST: Operation = Operation::new(
    "listAlerts",
    Chapter::Process,
    "List alerts of the last week, the last changed first",
)
.replies(&[Reply::json::<Page<AlertView>>(200, "All of them", alerts)]);

pub(in super::super) const TEST: Operation = Operation::new(
    "sendTestAlert",
    Chapter::Process,
    "Send an alert to see whether it arrives",
)
.replies(&[Reply::json::<AlertView>(202, "It is sent", test)])
.problems(&[C::AlertsOff]);

pub(in super::super) const SECRETS: Operation = Operation::new(
    "listAlertSecrets",
    Chapter::Process,
    "Read the secrets that sign alerts",
)
.replies(&[
    Reply::json::<WebhookSecretsView>(200, "The newest first", webhook_secrets)
        .headers(&[CACHE_CONTROL]),
])
.problems(&[C::WebhooksOff]);
