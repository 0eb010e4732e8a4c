//! `/healthz` (this process answers, and its loops go round) and `/readyz` (what it needs answers too, and can be written
//! to). They carry no address and no error text: anybody may ask.

use super::answer::Answer;
use crate::app_state::Api;
use crate::readiness::Parts;
use actix_web::{HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::http::Health;
use counterstep_kernel::access::access_tokens::KeysState;
use counterstep_node::metrics::Probes;
use counterstep_operations::Refused;
use std::collections::BTreeMap;

/// The part that has the keys of the issuer of access tokens. Older keys count while it does not answer.
const TOKEN_KEYS: &str = "token_keys";

pub(super) async fn live(api: web::Data<Api>) -> Answer {
    let hung = Probes::of(&api.engine, &api.shutdown).hung();
    if let Some((part, why)) = hung.first_key_value() {
        let detail = format!("this process hangs: {part}: {why}");
        return Err(Refused::new(ProblemCode::Unavailable, detail).into());
    }
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
        .retry_after(1)
        .into());
    }
    let keys = api.auth.token_keys();
    let has_keys = keys != Some(KeysState::Missing);
    let needed = [
        ("store", store),
        ("objects", objects),
        (TOKEN_KEYS, has_keys),
    ];
    let silent: Vec<_> = needed
        .iter()
        .filter(|(_, ok)| !ok)
        .map(|(n, _)| *n)
        .collect();
    if !silent.is_empty() {
        let detail = format!("does not answer: {}", silent.join(", "));
        return Err(Refused::new(ProblemCode::Unavailable, detail)
            .retry_after(1)
            .into());
    }
    let keys = keys.map(|keys| (TOKEN_KEYS, keys == KeysState::Current));
    // Requests are accepted without these two: tasks wait in the database, and hints only spare
    // work. To take every API out of service for them would turn a delay into an outage.
    let parts = [
        ("store", true),
        ("objects", true),
        ("queue", queue),
        ("hints", hints),
    ];
    let parts = parts.into_iter().chain(keys).map(|(part, ok)| {
        let answer = if ok { "ok" } else { "does not answer" };
        (part.to_owned(), answer.to_owned())
    });
    let mut parts: BTreeMap<String, String> = parts.collect();
    if let Some(missing) = Probes::of(&api.engine, &api.shutdown).missing_rights() {
        parts.insert("queue".to_owned(), missing);
    }
    Ok(HttpResponse::Ok().json(Health {
        status: "ok".to_owned(),
        parts,
    }))
}
