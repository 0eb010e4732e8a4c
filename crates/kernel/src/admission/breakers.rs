//! The breakers of this program's task types: which there are, and how a person closes one. How one opens and closes by itself is in
//! `counterstep_steps::breaker`, and who waits for one in `turn`. Must not start an attempt.

use crate::audit::admin_audit::{self, AdminChange};
use crate::breaker::{Breaker, BreakerState};
use crate::engine::Engine;
use crate::ports::StoreError;
use crate::turn::breaker_of;
use counterstep_contracts::Tenant;
use futures::future::BoxFuture;
use serde_json::json;
use std::collections::BTreeMap;

/// Those of this program's task types, by key.
pub(crate) fn declared(engine: &Engine) -> BTreeMap<String, Breaker> {
    let mut breakers = BTreeMap::new();
    for task_type in engine.registry.iter() {
        for at in 0..task_type.decl.steps.len() {
            if let Some(breaker) = breaker_of(engine, task_type, at) {
                breakers.entry(breaker.key().to_owned()).or_insert(breaker);
            }
        }
    }
    breakers
}

/// Who decides, and why.
#[derive(Debug, Clone, Copy)]
pub struct BreakerDecision<'a> {
    /// Who, as the audit says it.
    pub actor: &'a str,
    /// Why.
    pub note: &'a str,
}

/// A breaker was not closed.
#[derive(Debug, thiserror::Error)]
pub enum BreakerError {
    /// No step of this program has it.
    #[error("no step of a task type of this program has such a breaker")]
    Unknown,
    /// What all processes share about it does not answer.
    #[error("the hints do not answer, where breakers stand: try again")]
    NoHints,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Closes a breaker: attempts start again, in all processes that share its hints. `false`: it was not open.
///
/// # Errors
/// [`BreakerError`].
pub fn close_breaker<'a>(
    engine: &'a Engine,
    name: &'a str,
    decision: BreakerDecision<'a>,
) -> BoxFuture<'a, Result<bool, BreakerError>> {
    Box::pin(async move {
        let breaker = declared(engine).remove(name);
        let breaker = breaker.ok_or(BreakerError::Unknown)?;
        match breaker.known().await {
            None => return Err(BreakerError::NoHints),
            Some(BreakerState::Closed) => return Ok(false),
            Some(BreakerState::Open(_) | BreakerState::HalfOpen) => {}
        }
        let change = AdminChange {
            event: "breaker_closed",
            actor: decision.actor.to_owned(),
            tenant: Tenant::default(),
            name: name.to_owned(),
            details: json!({ "note": decision.note }),
        };
        // Hints and the chain have no transaction together. An entry for a breaker that was not closed after all does less harm than
        // one that is closed without a name beside it.
        admin_audit::put_all(&engine.ports.store, Vec::new(), change).await?;
        let closed = breaker.close().await.ok_or(BreakerError::NoHints)?;
        tracing::warn!(
            breaker = name,
            by = decision.actor,
            closed,
            "a breaker was closed by a person"
        );
        Ok(closed)
    })
}
