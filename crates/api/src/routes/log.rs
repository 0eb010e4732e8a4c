//! `GET /api/tasks/{id}/log`: what the steps of a task have logged, page by page, also while they run.

use super::address::{load, task_id};
use super::answer::Answer;
use super::list::limit_of;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_kernel::status::task_log;
use counterstep_operations::cursor;

pub(super) async fn get(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let id = task_id(&request)?;
    let params = Params::of(&request, &["limit", "cursor"])?;
    let limit = limit_of(&params)?;
    let after = params.get("cursor").map(cursor::read_log).transpose()?;
    load(&api, &caller, id).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let page = task_log::read(&api.engine.ports.store, id, after, limit).await?;
    Ok(HttpResponse::Ok().json(page))
}
