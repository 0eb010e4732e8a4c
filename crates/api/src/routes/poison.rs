//! `/api/poison-messages`: messages that no host can read. They are of no tenant.

use super::address::segment;
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::dead_letter::PoisonMessages;
use counterstep_kernel::dead_letters::poison;
use counterstep_operations::Refused;

pub(super) async fn list(api: web::Data<Api>, request: HttpRequest) -> Answer {
    Params::of(&request, &[])?;
    let items = poison::list(&api.engine.ports.store).await?;
    Ok(HttpResponse::Ok().json(PoisonMessages { items }))
}

pub(super) async fn delete(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
) -> Answer {
    Params::of(&request, &[])?;
    let (engine, id) = (api.engine.clone(), segment(&request, "id").to_owned());
    let removing = async move {
        let actor = caller.actor("operator");
        let removed = poison::remove(&engine.ports.store, &id, &actor).await?;
        let gone = || {
            Refused::new(
                ProblemCode::NoSuchPoison,
                "see /api/poison-messages for those that there are",
            )
        };
        removed.then_some(()).ok_or_else(gone)
    };
    api.finish("removing a poison message", removing).await?;
    Ok(HttpResponse::NoContent().finish())
}
