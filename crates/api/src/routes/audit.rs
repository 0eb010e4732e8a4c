//! `GET /api/tasks/{id}/audit`: everything that ever happened to a task.

use super::address::{load, task_id};
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use crate::task_view;
use actix_web::{HttpRequest, HttpResponse, web};

pub(super) async fn get(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let record = load(&api, &caller, id).await?;
    let history = api.engine.ports.store.history(id).await?;
    Ok(HttpResponse::Ok().json(task_view::trail(&record, history)))
}
