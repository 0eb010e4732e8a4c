//! `GET /api/tasks/{id}/events` and `GET /api/events`: what happens to a task, or which tasks change, as it
//! happens.

use super::address::task_id;
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::events::{ChangeStream, EventStream, Filter};
use crate::headers::last_event_id;
use crate::query::Params;
use actix_web::http::Method;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use counterstep_contracts::{AuditSeq, TaskStatus};
use counterstep_operations::filters::{declared_name, labels_of};
use counterstep_operations::{Refused, invalid};
use futures::Stream;
use std::convert::Infallible;

pub(super) async fn of_task(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let after = AuditSeq(last_event_id(&request)?.unwrap_or(0));
    let Some(stream) = EventStream::open(api, caller, id, after).await? else {
        // A browser that follows a stream comes again after each end, except after this.
        return Ok(HttpResponse::NoContent().finish());
    };
    Ok(answer(&request, stream.frames()))
}

pub(super) async fn of_many(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let params = Params::of_list(&request, &["type"], &["status", "label"])?;
    let statuses = params.all("status").map(status_of);
    let filter = Filter {
        task_type: params
            .get("type")
            .map(|name| declared_name(&api.engine, name)),
        statuses: statuses.collect::<Result<_, _>>()?,
        labels: labels_of(params.all("label"))?,
    };
    let last = last_event_id(&request)?;
    let stream = ChangeStream::open(api, caller, filter, last)?;
    Ok(answer(&request, stream.frames()))
}

fn status_of(text: &str) -> Result<TaskStatus, Refused> {
    text.parse().map_err(|_| {
        let known: Vec<_> = TaskStatus::ALL
            .iter()
            .map(|status| status.as_str())
            .collect();
        invalid(format!("`status` is one of {}", known.join(", "))).at("status")
    })
}

fn answer(
    request: &HttpRequest,
    frames: impl Stream<Item = Result<Bytes, Infallible>> + 'static,
) -> HttpResponse {
    let mut answer = HttpResponse::Ok();
    answer
        .insert_header((CONTENT_TYPE, "text/event-stream"))
        .insert_header((CACHE_CONTROL, "no-store"))
        // A proxy that collects an answer before it passes it on, as nginx does, lets it through.
        .insert_header(("x-accel-buffering", "no"));
    if request.method() == Method::HEAD {
        return answer.finish();
    }
    answer.streaming(frames)
}
