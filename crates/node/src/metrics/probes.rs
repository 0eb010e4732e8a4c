//! `/healthz` and `/readyz` beside a page of metrics: for workers and reconcilers, which serve nothing
//! else. They answer from the listener's own thread and ask no server, so that they answer, or do
//! not, by the state of this process alone. They carry no address and no error text.

use actix_web::http::StatusCode;
use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpResponse, web};
use counterstep_contracts::http::Health;
use counterstep_kernel::{Engine, status::health};
use counterstep_steps::CancelToken;
use std::collections::BTreeMap;

/// What probes ask.
#[derive(Debug, Clone)]
pub struct Probes {
    engine: Engine,
    shutdown: CancelToken,
}

impl Probes {
    /// Of a process that ends by this token.
    #[must_use]
    pub fn of(engine: &Engine, shutdown: &CancelToken) -> Self {
        Self {
            engine: engine.clone(),
            shutdown: shutdown.clone(),
        }
    }

    /// What keeps this process from its work and only a restart ends, by the part that it is about.
    #[must_use]
    pub fn hung(&self) -> BTreeMap<String, String> {
        let found = health::of(&self.engine);
        let mut parts = BTreeMap::new();
        if let Some(late) = found.late {
            let task = late.task.map(tracing::field::display);
            tracing::error!(part = late.what, task, late_by = ?late.by, "this process hangs");
            let text = format!("late by {}s", late.by.as_secs());
            parts.insert(late.what.to_owned(), text);
        }
        if found.jammed {
            let text = "abandoned code blocks as many threads as there are slots";
            parts.insert("slots".to_owned(), text.to_owned());
        }
        parts
    }

    /// The rights that NATS has refused this process lately: subjects of its own queues, no address.
    #[must_use]
    pub fn missing_rights(&self) -> Option<String> {
        let refused = self.engine.ports.queue.refused();
        (!refused.is_empty()).then(|| format!("NATS refuses {}", refused.join(", ")))
    }

    fn not_ready(&self) -> BTreeMap<String, String> {
        let mut parts = self.hung();
        if !health::of(&self.engine).store {
            parts.insert("store".to_owned(), "does not answer".to_owned());
        }
        if let Some(missing) = self.missing_rights() {
            parts.insert("queue".to_owned(), missing);
        }
        if self.shutdown.is_cancelled() {
            parts.insert("process".to_owned(), "is stopping".to_owned());
        }
        parts
    }
}

pub(super) fn configure(config: &mut web::ServiceConfig) {
    config
        .route("/healthz", web::get().to(live))
        .route("/readyz", web::get().to(ready));
}

async fn live(probes: web::Data<Probes>) -> HttpResponse {
    answer(probes.hung())
}

async fn ready(probes: web::Data<Probes>) -> HttpResponse {
    answer(probes.not_ready())
}

/// 200, or 503 with what is wrong.
fn answer(parts: BTreeMap<String, String>) -> HttpResponse {
    let (code, status) = if parts.is_empty() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "unavailable")
    };
    HttpResponse::build(code)
        .insert_header((CACHE_CONTROL, "no-store"))
        .json(Health {
            status: status.to_owned(),
            parts,
        })
}
