//! `/healthz` (this process answers) and `/readyz` (what it needs answers too, and can be written to). They carry no address and no error
//! text: anybody may ask.

use super::Answer;
use crate::problem::Refused;
use crate::shared::Api;
use actix_web::{HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::http::Health;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;

/// Whoever asks has a time limit of its own, often a few seconds.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn live() -> Answer {
    Ok(HttpResponse::Ok().json(Health { status: "ok".to_owned(), parts: BTreeMap::new() }))
}

pub(super) async fn ready(api: web::Data<Api>) -> Answer {
    let ports = &api.engine.ports;
    let store = api.engine.check_store();
    let objects = ports.objects.check();
    let queue = answers("queue", ports.queue.check());
    let hints = answers("hints", ports.hints.check());
    let (store, objects, queue, hints) =
        futures::future::join4(answers("store", store), answers("objects", objects), queue, hints).await;
    if api.shutdown.is_cancelled() {
        return Err(Refused::new(ProblemCode::Unavailable, "this server is stopping: ask another one").retry_after(1));
    }
    let silent: Vec<_> =
        [("store", store), ("objects", objects)].iter().filter(|(_, ok)| !ok).map(|(n, _)| *n).collect();
    if !silent.is_empty() {
        let detail = format!("does not answer: {}", silent.join(", "));
        return Err(Refused::new(ProblemCode::Unavailable, detail).retry_after(1));
    }
    // Requests are accepted without these two: messages wait in the outbox, and hints only spare work. To take every
    // API out of service for them would turn a delay into an outage.
    let parts = [("store", true), ("objects", true), ("queue", queue), ("hints", hints)]
        .map(|(part, ok)| (part.to_owned(), if ok { "ok" } else { "does not answer" }.to_owned()))
        .into();
    Ok(HttpResponse::Ok().json(Health { status: "ok".to_owned(), parts }))
}

async fn answers<E: std::fmt::Display>(part: &str, question: impl Future<Output = Result<(), E>>) -> bool {
    match timeout(PATIENCE, question).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::warn!(part, %error, "not ready");
            false
        }
        Err(_) => {
            tracing::warn!(part, "not ready: no answer in time");
            false
        }
    }
}
