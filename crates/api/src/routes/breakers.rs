//! `/api/breakers`: how they stand, and closing one.

use super::address::segment;
use super::answer::Answer;
use super::operator::{body, note};
use crate::app_state::Api;
use crate::caller::caller_of;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::http::Page;
use counterstep_contracts::workers::{BreakerRequest, BreakerStanding, BreakerView};
use counterstep_kernel::admission::breakers::{BreakerDecision, BreakerError, close_breaker};
use counterstep_kernel::status;
use counterstep_operations::Refused;
use counterstep_steps::breaker::BreakerState;

pub(super) async fn list(api: web::Data<Api>, request: HttpRequest) -> Answer {
    Params::of(&request, &[])?;
    let found = status::breakers(&api.engine).await;
    let view = |(name, state)| BreakerView {
        name,
        state: match state {
            BreakerState::Closed => BreakerStanding::Closed,
            BreakerState::Open(_) => BreakerStanding::Open,
            BreakerState::HalfOpen => BreakerStanding::HalfOpen,
        },
    };
    Ok(HttpResponse::Ok().json(Page {
        items: found.into_iter().map(view).collect(),
        next_cursor: None,
    }))
}

pub(super) async fn close(
    api: web::Data<Api>,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    Params::of(&request, &[])?;
    let name = segment(&request, "name").to_owned();
    let asked: BreakerRequest = body(&api, &request, payload).await?;
    let (actor, note, engine) = (
        caller_of(&request)?.actor("operator"),
        note(&asked.note, asked.actor.as_deref())?,
        api.engine.clone(),
    );
    let closing = async move {
        let decision = BreakerDecision {
            actor: &actor,
            note: &note,
        };
        let closed = close_breaker(&engine, &name, decision).await;
        closed.map_err(refused)?;
        Ok::<_, Refused>(BreakerView {
            name,
            state: BreakerStanding::Closed,
        })
    };
    Ok(HttpResponse::Ok().json(api.finish("closing a breaker", closing).await?))
}

fn refused(error: BreakerError) -> Refused {
    let detail = error.to_string();
    match error {
        BreakerError::Unknown => Refused::new(
            ProblemCode::NoSuchBreaker,
            "see /api/breakers for those that there are",
        ),
        BreakerError::NoHints => Refused::new(ProblemCode::Unavailable, detail).retry_after(1),
        BreakerError::Store(error) => error.into(),
    }
}
