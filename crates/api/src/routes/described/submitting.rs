//! Submissions, one by one and in batches.

use super::examples;
use super::params::{KEY, PREFER, PREFERENCE_APPLIED, REPLAYED, RETRY_AFTER, WAIT, param, text};
use crate::openapi::{LOCATION, Operation, PerType, Reply};
use counterstep_contracts::ProblemCode as C;
use counterstep_contracts::http::{Accepted, BatchAnswer, BatchRequest, TaskView};
use counterstep_contracts::operation::{Chapter, Param, TASK_LINKS};
use serde_json::{Value, json};

fn url() -> Value {
    json!({ "type": "string", "format": "uri", "pattern": "^https?://", "maxLength": 2000 })
}

const LABELS: Param = param(
    "Counterstep-Label",
    "Labels of the task, `name=value`, several with commas between them; a value with a comma or a quote stands in quotes",
    text,
    "order=4711, customer=\"Smith, Bob\"",
);
const WEBHOOK: Param = param(
    "Counterstep-Webhook",
    "Where a POST goes when the task comes to rest",
    url,
    "https://shop.example/hooks/tasks",
);
const TRACEPARENT: Param = param(
    "traceparent",
    "W3C trace context; one that is not well-formed is ignored",
    text,
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
);

pub(in super::super) const POST: Operation = Operation::new(
    "submit",
    Chapter::Submitting,
    "Submit a task of the type {type}",
)
.query(&[WAIT])
.headers(&[KEY, LABELS, WEBHOOK, PREFER, TRACEPARENT])
.per_type(PerType::One)
.replies(&[
    Reply::json::<TaskView>(
        200,
        "The task, at rest within the time that the request waits",
        examples::completed,
    )
    .headers(&[LOCATION, REPLAYED, PREFERENCE_APPLIED])
    .links(TASK_LINKS),
    Reply::json::<Accepted>(202, "The task is accepted", examples::accepted)
        .headers(&[LOCATION, RETRY_AFTER, REPLAYED, PREFERENCE_APPLIED])
        .links(TASK_LINKS),
])
.problems(&[
    C::MalformedParameter,
    C::MalformedIdempotencyKey,
    C::InProgress,
    C::IdempotencyMismatch,
    C::InvalidLabel,
    C::InvalidFileName,
    C::InvalidWebhook,
    C::WebhooksOff,
    C::TypeDisabled,
    C::TooManyAtOnce,
    C::TooManyWaiting,
]);

pub(in super::super) const BATCH: Operation = Operation::new(
    "submitBatch",
    Chapter::Submitting,
    "Submit many tasks of the type {type}; each has an outcome of its own",
)
.body::<Vec<BatchRequest>>(examples::batch)
.per_type(PerType::Batch)
.replies(&[Reply::json::<BatchAnswer>(
    200,
    "What became of each request, in their order. One that is refused keeps no other from being accepted",
    examples::batch_answer,
)])
.problems(&[C::MalformedIdempotencyKey, C::InvalidLabel, C::TypeDisabled, C::TooManyAtOnce, C::TooManyWaiting]);
