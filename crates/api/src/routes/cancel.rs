//! `DELETE /api/tasks/{id}`: asks for a cancel. The kernel decides; here its answers get their
//! codes.

use super::address::{load, task_id};
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::http::CancelOutcome;
use counterstep_kernel::client;
use counterstep_operations::Refused;

pub(super) async fn delete(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    load(&api, &caller, id).await?;
    let (engine, actor) = (api.engine.clone(), caller.actor("client"));
    let cancelled = api
        .finish("cancelling", async move {
            client::cancel(&engine, id, &actor)
                .await
                .map_err(Refused::from)
        })
        .await?;
    Ok(match cancelled.answer.outcome {
        CancelOutcome::AlreadyCancelled => HttpResponse::Ok().json(cancelled.answer),
        CancelOutcome::NothingHadRun | CancelOutcome::Undoing | CancelOutcome::Stopping => {
            HttpResponse::Accepted().json(cancelled.answer)
        }
    })
}
