//! `POST /api/tasks/{type}/batch`: many requests without files, each with its own outcome. The kernel
//! submits them; here each gets its answer.

use super::answer::Answer;
use crate::app_state::Api;
use crate::body::Arriving;
use crate::caller::caller_of;
use crate::headers::{BodyKind, body_kind, content_length, is_key, traceparent, webhook_at};
use crate::problem::{outcome_of, too_large};
use crate::query::Params;
use crate::request_json;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::http::{BATCH_MOST, BatchAnswer, BatchOutcome, BatchRequest};
use counterstep_contracts::{Labels, ProblemCode};
use counterstep_kernel::client::{self, BatchItem, Submission, SubmitError, Submitted};
use counterstep_kernel::ports::SubmissionOutcome;
use counterstep_operations::{Refused, invalid};
use counterstep_steps::TaskType;
use serde_json::Value;

/// Levels of nesting around a request: the array, and the object in which a request stands.
const AROUND: u32 = 2;

pub(super) async fn post(
    api: web::Data<Api>,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let task_type = super::address::by_route(&api, &request)?;
    let answer = take(&api, &request, payload, task_type).await;
    let count = |outcome| api.engine.observe_answer(&task_type, outcome);
    match &answer {
        Ok(BatchAnswer { items }) => items.iter().for_each(|item| match item {
            BatchOutcome::Accepted(_) => count(SubmissionOutcome::Accepted),
            BatchOutcome::Replayed(_) => count(SubmissionOutcome::Repeated),
            BatchOutcome::Refused { problem, .. } => count(outcome_of(problem)),
        }),
        Err(refused) => count(outcome_of(refused.problem())),
    }
    Ok(HttpResponse::Ok().json(answer?))
}

async fn take(
    api: &Api,
    request: &HttpRequest,
    payload: web::Payload,
    task_type: TaskType,
) -> Result<BatchAnswer, Refused> {
    Params::of(request, &[])?;
    if request.headers().contains_key("idempotency-key") {
        let detail = "a batch has no key of its own: give each of its requests a `key`";
        let code = ProblemCode::MalformedIdempotencyKey;
        return Err(Refused::new(code, detail).at("Idempotency-Key"));
    }
    if request.headers().contains_key("counterstep-label") {
        let detail = "a batch has no labels of its own: give each of its requests `labels`";
        return Err(Refused::new(ProblemCode::InvalidLabel, detail).at("Counterstep-Label"));
    }
    if body_kind(request)? != BodyKind::Json {
        let detail = "send a batch as `Content-Type: application/json`";
        return Err(Refused::new(ProblemCode::UnsupportedMediaType, detail).at("Content-Type"));
    }
    let body = Arriving::new(api, payload)
        .whole(content_length(request), api.settings.max_json_bytes)
        .await?;
    let items = request_json::parse_items(&body, AROUND)?;
    if items.len() > BATCH_MOST {
        return Err(too_large(format!(
            "a batch may have {BATCH_MOST} requests: send several batches"
        )));
    }
    if items.is_empty() {
        return Err(invalid("the batch is empty: send at least one request"));
    }
    let mut sent = Vec::with_capacity(items.len());
    let places: Vec<Result<(), Refused>> = items
        .into_iter()
        .map(|value| item(api, value).map(|item| sent.push(item)))
        .collect();
    let (engine, caller) = (api.engine.clone(), caller_of(request)?);
    let by = Submission {
        actor: caller.actor("client"),
        tenant: caller.tenant,
        key: None,
        traceparent: api
            .engine
            .traceparent_of_submission(traceparent(request.headers())),
        webhook: None,
        labels: Labels::new(),
    };
    let submitted = api.finish("taking a batch", async move {
        Ok(client::submit_all(&engine, task_type, by, sent).await?)
    });
    let mut submitted = submitted.await?.into_iter();
    let one = |place: Result<(), Refused>| match place {
        Ok(()) => submitted.next().map(outcome),
        Err(refused) => Some(refusal(refused)),
    };
    let items = places.into_iter().filter_map(one).collect();
    Ok(BatchAnswer { items })
}

/// A request as it stands in the array.
fn item(api: &Api, value: Value) -> Result<BatchItem, Refused> {
    request_json::without_nul(&value)?;
    let read = serde_json::from_value::<BatchRequest>(value);
    let BatchRequest {
        key,
        labels: named,
        webhook,
        request,
    } = read.map_err(|error| {
        invalid(format!(
            "expected an object with `request` and perhaps `key`, `labels` and `webhook`: {error}"
        ))
    })?;
    if key.as_deref().is_some_and(|key| !is_key(key)) {
        let detail = "invalid key: expected 1 to 255 visible ASCII characters without spaces";
        return Err(Refused::new(ProblemCode::MalformedIdempotencyKey, detail).at("key"));
    }
    let mut labels = Labels::new();
    for (name, value) in named.iter() {
        let added = labels.add(name, value);
        added.map_err(|error| Refused::from(SubmitError::Label(error)).at("labels"))?;
    }
    let webhook = webhook.map(|text| webhook_at(api, &text)).transpose();
    Ok(BatchItem {
        key,
        labels,
        webhook: webhook.map_err(|refused| refused.at("webhook"))?,
        body: request,
    })
}

fn outcome(submitted: Result<Submitted, SubmitError>) -> BatchOutcome {
    match submitted {
        Ok(Submitted { answer, replayed }) if replayed => BatchOutcome::Replayed(answer),
        Ok(Submitted { answer, .. }) => BatchOutcome::Accepted(answer),
        Err(error) => refusal(error.into()),
    }
}

fn refusal(refused: Refused) -> BatchOutcome {
    let (problem, retry_after) = refused.into_parts();
    BatchOutcome::Refused {
        problem,
        retry_after,
    }
}
