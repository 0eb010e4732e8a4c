//! `GET /api/tasks/{id}/plan` and `/why`: what an undo would do, and what a task waits for. The
//! kernel works both out.

use super::address::{self, task_id};
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_kernel::{operator, record::load};
use counterstep_operations::{is_of, no_such_task, unknown_type};

pub(super) async fn plan(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let record = address::load(&api, &caller, id).await?;
    let task_type = api
        .engine
        .registry
        .of(&record.task)
        .ok_or_else(unknown_type)?;
    Ok(HttpResponse::Ok().json(operator::undo_plan(&task_type, &record)))
}

pub(super) async fn why(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let record = match load::read(&api.engine, id).await {
        Ok(record) => record,
        Err(error) => {
            is_of(&api.engine, &caller.tenant, id).await?;
            let why = operator::why_unreadable(&api.engine, id, error).await?;
            return Ok(HttpResponse::Ok().json(why));
        }
    };
    let record = record
        .filter(|record| record.task.tenant == caller.tenant)
        .ok_or_else(no_such_task)?;
    let around = operator::surroundings(&api.engine, &record).await;
    Ok(HttpResponse::Ok().json(operator::why_among(&api.engine.registry, &record, &around)))
}
