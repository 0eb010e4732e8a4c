//! `POST /api/tasks/{type}`: a request becomes a task.

use super::answer::Answer;
use super::task::{self, Wait};
use super::upload;
use crate::app_state::Api;
use crate::body::Arriving;
use crate::caller::caller_of;
use crate::form::put_parts;
use crate::headers::{BodyKind, body_kind, content_length, idempotency_key, traceparent, webhook};
use crate::label_header;
use crate::long_poll::{Rests, WaitFor};
use crate::mount_path::address;
use crate::problem::outcome_of;
use crate::request_json;
use crate::request_span;
use actix_web::http::header::{CONTENT_LOCATION, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_kernel::Engine;
use counterstep_kernel::client::{self, Submission, Submitted, UploadSession};
use counterstep_operations::Refused;
use counterstep_steps::TaskType;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};

/// A request that was accepted.
struct Taken {
    submitted: Submitted,
    /// The wait for the rest of its task, from before there was one; `None`: the client does not
    /// wait.
    wait: Option<WaitFor>,
}

pub(super) async fn post(
    api: web::Data<Api>,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let task_type = super::address::by_route(&api, &request)?;
    let taken = take(&api, &request, payload, task_type).await;
    let outcome = match &taken {
        Ok((_, taken)) => taken.submitted.outcome(),
        Err(refused) => outcome_of(refused.problem()),
    };
    api.engine.observe_answer(&task_type, outcome);
    let (wait, taken) = taken?;
    let task = taken.submitted.answer.task_id;
    request_span::has_submitted(&request, task_type.decl.name, task);
    Ok(answer(&api, &request, wait, taken).await)
}

/// Reads the request and submits it; and how the client waits for its task.
async fn take(
    api: &Api,
    request: &HttpRequest,
    payload: web::Payload,
    task_type: TaskType,
) -> Result<(Option<Wait>, Taken), Refused> {
    let wait = Wait::of(request)?;
    let caller = caller_of(request)?;
    let submission = Submission {
        actor: caller.actor("client"),
        tenant: caller.tenant.clone(),
        key: idempotency_key(request)?,
        traceparent: api
            .engine
            .traceparent_of_submission(traceparent(request.headers())),
        webhook: webhook(api, request)?,
        labels: label_header::labels(request)?,
    };
    let announced = content_length(request);
    let rests = wait.is_some().then(|| api.waiting.rests().clone());
    let engine = api.engine.clone();
    let taken = match body_kind(request)? {
        BodyKind::Json => {
            let arriving = Arriving::new(api, payload);
            let body = request_json::parse(
                &arriving
                    .whole(announced, api.settings.max_json_bytes)
                    .await?,
            )?;
            let taking = submit(engine, task_type, submission, rests, |session| {
                ready(session.body(body).map_err(Refused::from)).boxed()
            });
            api.finish("taking a JSON request", taking).await?
        }
        BodyKind::Form { boundary } => {
            let taking = |form| {
                submit(engine, task_type, submission, rests, |session| {
                    put_parts(session, form).boxed()
                })
            };
            upload::receive(api, &caller, payload, announced, &boundary, taking).await?
        }
    };
    Ok((wait, taken))
}

/// Submits a request, which `put` puts into the upload session. `rests`: subscribe here if the client waits for the end.
async fn submit(
    engine: Engine,
    task_type: TaskType,
    submission: Submission,
    rests: Option<Rests>,
    put: impl for<'a> FnOnce(&'a mut UploadSession) -> BoxFuture<'a, Result<(), Refused>>,
) -> Result<Taken, Refused> {
    let mut wait = None;
    let submitted = client::take(&engine, task_type, submission, |session| {
        wait = rests.map(|rests| rests.of(session.task_id()));
        put(session)
    });
    let submitted = submitted.await?;
    Ok(Taken { submitted, wait })
}

/// The answer to a request that was taken, at once or when its task is at rest.
async fn answer(
    api: &Api,
    request: &HttpRequest,
    wait: Option<Wait>,
    Taken {
        submitted,
        wait: begun,
    }: Taken,
) -> HttpResponse {
    // A task of uploads alone is at rest by now: it is shown at once.
    let begun = begun.filter(|_| !submitted.answer.status.is_at_rest());
    let at_rest = match wait {
        Some(wait) => task::at_rest(api, request, &submitted, wait, begun).await,
        None => None,
    };
    let is_shown = at_rest.is_some();
    let mut answer = at_rest.unwrap_or_else(|| accepted(&submitted, wait));
    answer = located(request, answer, &submitted);
    let headers = answer.headers_mut();
    // The body is what this address shows.
    if let Some(location) = headers.get(LOCATION).filter(|_| is_shown).cloned() {
        headers.insert(CONTENT_LOCATION, location);
    }
    answer
}

/// The answer with the address of the task, and whether it is that of an earlier request.
pub(super) fn located(
    request: &HttpRequest,
    mut answer: HttpResponse,
    submitted: &Submitted,
) -> HttpResponse {
    let headers = answer.headers_mut();
    let location = address(request, &format!("/api/tasks/{}", submitted.answer.task_id));
    if let Ok(location) = HeaderValue::from_str(&location) {
        headers.insert(LOCATION, location);
    }
    if submitted.replayed {
        headers.insert(
            HeaderName::from_static("idempotency-replayed"),
            HeaderValue::from_static("true"),
        );
    }
    answer
}

fn accepted(submitted: &Submitted, wait: Option<Wait>) -> HttpResponse {
    let mut answer = HttpResponse::Accepted();
    answer.insert_header((RETRY_AFTER, "1"));
    if let Some(wait) = wait {
        wait.applied(&mut answer);
    }
    answer.json(&submitted.answer)
}
