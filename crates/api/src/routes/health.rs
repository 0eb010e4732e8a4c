//! `/healthz` (this process answers) and `/readyz` (what it needs answers too, and can be written
//! to). They carry no address and no error text: anybody may ask.

use super::answer::Answer;
use crate::app_state::Api;
use crate::problem::Refused;
use crate::readiness::Parts;
use actix_web::{HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::http::Health;
use std::collections::BTreeMap;

pub(super) async fn live() -> Answer {
    Ok(HttpResponse::Ok().json(Health {
        status: "ok".to_owned(),
        parts: BTreeMap::new(),
    }))
}

pub(super) async fn ready(api: web::Data<Api>) -> Answer {
    let Parts {
        store,
        objects,
        queue,
        hints,
    } = api.readiness.parts(&api.engine).await;
    if api.shutdown.is_cancelled() {
        return Err(Refused::new(
            ProblemCode::Unavailable,
            "this server is stopping: ask another one",
        )
        .retry_after(1));
    }
    let silent: Vec<_> = [("store", store), ("objects", objects)]
        .iter()
        .filter(|(_, ok)| !ok)
        .map(|(n, _)| *n)
        .collect();
    if !silent.is_empty() {
        let detail = format!("does not answer: {}", silent.join(", "));
        return Err(Refused::new(ProblemCode::Unavailable, detail).retry_after(1));
    }
    // Requests are accepted without these two: tasks wait in the database, and hints only spare
    // work. To take every API out of service for them would turn a delay into an outage.
    let parts = [
        ("store", true),
        ("objects", true),
        ("queue", queue),
        ("hints", hints),
    ]
    .map(|(part, ok)| {
        (
            part.to_owned(),
            if ok { "ok" } else { "does not answer" }.to_owned(),
        )
    })
    .into();
    Ok(HttpResponse::Ok().json(Health {
        status: "ok".to_owned(),
        parts,
    }))
}
