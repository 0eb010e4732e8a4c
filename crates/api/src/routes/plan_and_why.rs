//! `GET /api/tasks/{id}/plan` and `/why`: what an undo would do, and what a task waits for. The
//! kernel works both out.

use super::address::{load, task_id};
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Caller;
use crate::problem::unknown_type;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_kernel::operator;

pub(super) async fn plan(api: web::Data<Api>, caller: Caller, request: HttpRequest) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let record = load(&api, &caller, id).await?;
    let task_type = api
        .engine
        .registry
        .of(&record.task)
        .ok_or_else(unknown_type)?;
    Ok(HttpResponse::Ok().json(operator::undo_plan(&task_type, &record)))
}

pub(super) async fn why(api: web::Data<Api>, caller: Caller, request: HttpRequest) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let record = load(&api, &caller, id).await?;
    let around = operator::surroundings(&api.engine, &record).await;
    Ok(HttpResponse::Ok().json(operator::why_among(&api.engine.registry, &record, &around)))
}
