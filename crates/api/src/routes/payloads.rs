//! `GET /api/tasks/{id}/payloads`: what was handed in, and what the steps have put out. Apart from the task's
//! view, which is asked for often and by programs that need none of it.

use super::address::{load, task_id};
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use crate::task_view;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse, web};

pub(super) async fn get(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let record = load(&api, &caller, id).await?;
    Ok(HttpResponse::Ok()
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(task_view::payloads(record)))
}
