//! `GET /api/tasks/{id}/plan` and `/why`: what an undo would do, and what a task waits for. The
//! kernel works both out.

use super::address::{load, task_id};
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Caller;
use crate::problem::unknown_type;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_kernel::documents::TypedDocuments;
use counterstep_kernel::operator::{self, Surroundings};

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
    // Who is there is worth a word, and no reason to refuse the rest.
    let workers = api.engine.ports.store.workers().await;
    let workers = workers
        .inspect_err(|error| tracing::warn!(%error, "processes could not be read"))
        .ok();
    let store = api.engine.ports.store.as_ref();
    let children = operator::children_found(store, &record).await;
    let children = children
        .inspect_err(
            |error| tracing::warn!(task = %id, %error, "the tasks that it has submitted could not be read"),
        )
        .unwrap_or_default();
    let places = operator::places_found(store, &record).await;
    let places = places
        .inspect_err(
            |error| tracing::warn!(task = %id, %error, "the tasks of its key could not be read"),
        )
        .unwrap_or_default();
    let around = Surroundings {
        workers,
        children,
        places,
    };
    Ok(HttpResponse::Ok().json(operator::why_among(&api.engine.registry, &record, &around)))
}
