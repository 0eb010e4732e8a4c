//! `POST /api/tasks/{id}/run-again`: a new task does what one that has ended was to do. The kernel says whether
//! it can; here the body is checked, and refusals get their codes.

use super::address::{load, task_id};
use super::answer::Answer;
use super::operation::body;
use super::submit::located;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::headers::{idempotency_key, traceparent};
use crate::query::Params;
use actix_web::http::header::RETRY_AFTER;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::run_again::RunAgainRequest;
use counterstep_kernel::client::{self, RunAgain};
use counterstep_operations::{Refused, edit, note};

pub(super) async fn post(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let key = idempotency_key(&request)?;
    let traceparent = traceparent(request.headers());
    let body: RunAgainRequest = body(&api, &request, payload).await?;
    let order = RunAgain {
        from: body.from,
        edit: edit(body.request, body.patch)?,
        actor: caller.actor("operator"),
        note: note(&body.note, body.actor.as_deref())?.to_string(),
        key,
        traceparent: api.engine.traceparent_of_submission(traceparent),
        bulk: None,
    };
    load(&api, &caller, id).await?;
    let engine = api.engine.clone();
    let running = async move {
        client::run_again(&engine, id, order)
            .await
            .map_err(Refused::from)
    };
    let submitted = api.finish("running a task again", running).await?;
    let mut answer = HttpResponse::Accepted();
    answer.insert_header((RETRY_AFTER, "1"));
    Ok(located(
        &request,
        answer.json(&submitted.answer),
        &submitted,
    ))
}
