//! `GET /api/tasks/{id}/events`: what happens to a task, as it happens.

use super::address::task_id;
use super::answer::Answer;
use crate::app_state::Api;
use crate::events::EventStream;
use crate::headers::last_event_id;
use crate::query::Params;
use actix_web::http::Method;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::AuditSeq;

pub(super) async fn of_task(api: web::Data<Api>, request: HttpRequest) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let after = AuditSeq(last_event_id(&request)?);
    let Some(stream) = EventStream::open(api, id, after).await? else {
        // A browser that follows a stream comes again after each end, except after this.
        return Ok(HttpResponse::NoContent().finish());
    };
    let mut answer = HttpResponse::Ok();
    answer
        .insert_header((CONTENT_TYPE, "text/event-stream"))
        .insert_header((CACHE_CONTROL, "no-store"))
        // A proxy that collects an answer before it passes it on, as nginx does, lets it through.
        .insert_header(("x-accel-buffering", "no"));
    if request.method() == Method::HEAD {
        return Ok(answer.finish());
    }
    Ok(answer.streaming(stream.frames()))
}
