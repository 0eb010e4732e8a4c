//! The breakers of this program's task types: which there are, and how a person closes one. How one opens and closes by itself is in
//! `counterstep_steps::breaker`, and who waits for one in `turn`. Where processes share no hints, each writes those that it has open
//! into its row of the worker registry, and reads what people have closed. Must not start an attempt.

use crate::audit::admin_audit::{self, AdminChange};
use crate::breaker::{Breaker, BreakerState};
use crate::documents::{Edit, busy, edit, write_document};
use crate::engine::Engine;
use crate::engine::time_limits::best_effort;
use crate::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, StoreError, WorkerSeen,
    Workers,
};
use crate::record::DbTime;
use crate::turn::breaker_of;
use counterstep_contracts::workers::{BreakerStanding, BreakerView, WorkerState};
use counterstep_contracts::{Rev, Tenant};
use futures::future::{BoxFuture, join_all};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

const KIND: DocumentKind = DocumentKind::ClosedBreaker;

/// How late a document may be seen after the time that it has. A breaker that opens anew in this time is closed once more.
const SEEN_LATE: Duration = Duration::from_secs(5);

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

/// How those stand, as this process sees them.
pub(crate) async fn states(engine: &Engine) -> Vec<(String, BreakerState)> {
    let states = declared(engine).into_iter().map(async |(key, breaker)| {
        let state = breaker.standing().await;
        (key, state)
    });
    join_all(states).await
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

/// The breakers of this program's task types and of the processes that are alive, by name, and how each stands. Where
/// processes share no hints each has its own: then the one that lets the fewest attempts through counts, and those
/// that are not closed are named with their processes, as of the last refresh of their rows.
///
/// # Errors
/// When the store does not answer.
pub fn breakers_of_all(engine: &Engine) -> BoxFuture<'_, Result<Vec<BreakerView>, StoreError>> {
    Box::pin(async move {
        let here = states(engine).await.into_iter();
        let mut views: BTreeMap<String, BreakerView> = here
            .map(|(name, state)| (name.clone(), view(name, standing(&state))))
            .collect();
        if engine.ports.hints.is_shared() {
            return Ok(views.into_values().collect());
        }
        let id = engine.id.to_string();
        for view in views.values_mut() {
            if view.state != BreakerStanding::Closed {
                view.processes.push(id.clone());
            }
        }
        let found = engine.ports.store.workers().await?;
        for (name, processes) in open_elsewhere(engine, &found).await? {
            let closed = || view(name.clone(), BreakerStanding::Closed);
            let view = views.entry(name.clone()).or_insert_with(closed);
            for (process, state) in processes.into_iter().filter(|(process, _)| *process != id) {
                view.processes.push(process);
                if view.state != BreakerStanding::Open {
                    view.state = state;
                }
            }
        }
        Ok(views.into_values().collect())
    })
}

const fn standing(state: &BreakerState) -> BreakerStanding {
    match state {
        BreakerState::Closed => BreakerStanding::Closed,
        BreakerState::Open(_) => BreakerStanding::Open,
        BreakerState::HalfOpen => BreakerStanding::HalfOpen,
    }
}

const fn view(name: String, state: BreakerStanding) -> BreakerView {
    BreakerView {
        name,
        state,
        processes: Vec::new(),
    }
}

/// This process's own breakers that are not closed, behind what people have closed since its row was written at
/// `since`, and whether that could be read. None where the hints are shared.
pub(crate) async fn not_closed_here(
    engine: &Engine,
    since: Option<DbTime>,
) -> (BTreeMap<String, BreakerStanding>, bool) {
    if engine.ports.hints.is_shared() {
        return (BTreeMap::new(), true);
    }
    let mut are_read = true;
    let mut open = BTreeMap::new();
    for (name, breaker) in declared(engine) {
        let state = standing(&breaker.standing().await);
        if state != BreakerStanding::Closed {
            open.insert(name, (breaker, state));
        }
    }
    if let Some(since) = since.filter(|_| !open.is_empty()) {
        let names = open.keys().cloned().collect();
        match best_effort(engine.ports.clock.as_ref(), closings(engine, names)).await {
            Some(Ok(closed)) => {
                for row in closed {
                    // A transaction is seen some time after the time that it has.
                    if since.after(row.seen_at) > SEEN_LATE {
                        continue;
                    }
                    let Some((breaker, _)) = open.remove(&row.name) else {
                        continue;
                    };
                    closed_by_a_person(&breaker, None).await;
                }
            }
            // The next refresh looks at the same time again.
            Some(Err(error)) => {
                are_read = false;
                tracing::warn!(%error, "closed breakers could not be read");
            }
            None => {
                are_read = false;
                tracing::warn!("closed breakers could not be read in time");
            }
        }
    }
    let states = open.into_iter().map(|(name, (_, state))| (name, state));
    (states.collect(), are_read)
}

/// The processes that are alive and have a breaker open, by its name: those whose row is newer than its closing by a person.
pub(crate) async fn open_elsewhere(
    engine: &Engine,
    known: &Workers,
) -> Result<BTreeMap<String, Vec<(String, BreakerStanding)>>, StoreError> {
    let alive = known.rows.iter();
    let alive = alive.filter(|seen| seen.state(known.now) == WorkerState::Alive);
    let mut open: BTreeMap<String, Vec<(&WorkerSeen, BreakerStanding)>> = BTreeMap::new();
    for seen in alive {
        for (name, state) in &seen.row.breakers {
            open.entry(name.clone()).or_default().push((seen, *state));
        }
    }
    if open.is_empty() {
        return Ok(BTreeMap::new());
    }
    let closings = closings(engine, open.keys().cloned().collect()).await?;
    let closed_at: BTreeMap<String, DbTime> = closings
        .into_iter()
        .map(|row| (row.name, row.seen_at))
        .collect();
    let newer = open.into_iter().map(|(name, rows)| {
        let closed_at = closed_at.get(&name);
        let rows = rows.into_iter();
        let rows = rows.filter(|(seen, _)| closed_at.is_none_or(|at| seen.seen_at > *at));
        let rows = rows.map(|(seen, state)| (seen.row.id.clone(), state));
        (name, rows.collect())
    });
    Ok(newer.collect())
}

async fn closings(engine: &Engine, names: Vec<String>) -> Result<Vec<Document>, StoreError> {
    let query = DocumentQuery::Named {
        kind: KIND,
        tenant: Tenant::default(),
        names,
    };
    Ok(engine.ports.store.documents(&query).await?.rows)
}

/// Closes a breaker: attempts start again, in all processes that share its hints. Where each process has its own, those
/// of the answer close it with the next refresh of their rows in the worker registry.
///
/// # Errors
/// [`BreakerError`].
pub fn close_breaker<'a>(
    engine: &'a Engine,
    name: &'a str,
    decision: BreakerDecision<'a>,
) -> BoxFuture<'a, Result<BreakerView, BreakerError>> {
    Box::pin(async move {
        let closed = if engine.ports.hints.is_shared() {
            close_for_all(engine, name, decision).await
        } else {
            close_in_each(engine, name, decision).await
        };
        let processes = closed?;
        Ok(BreakerView {
            processes,
            ..view(name.to_owned(), BreakerStanding::Closed)
        })
    })
}

fn audited(name: &str, decision: BreakerDecision<'_>) -> AdminChange {
    AdminChange {
        event: "breaker_closed",
        actor: decision.actor.to_owned(),
        tenant: Tenant::default(),
        name: name.to_owned(),
        details: json!({ "note": decision.note }),
    }
}

/// Closes it in this process, or for all that share its hints; `by`: where this process was told who decided so. `None`: the hints do
/// not answer.
async fn closed_by_a_person(breaker: &Breaker, by: Option<&str>) -> Option<bool> {
    let closed = breaker.close().await?;
    let breaker = breaker.key();
    tracing::warn!(breaker, by, closed, "a breaker was closed by a person");
    Some(closed)
}

async fn close_for_all(
    engine: &Engine,
    name: &str,
    decision: BreakerDecision<'_>,
) -> Result<Vec<String>, BreakerError> {
    let breaker = declared(engine).remove(name);
    let breaker = breaker.ok_or(BreakerError::Unknown)?;
    match breaker.known().await {
        None => return Err(BreakerError::NoHints),
        Some(BreakerState::Closed) => return Ok(Vec::new()),
        Some(BreakerState::Open(_) | BreakerState::HalfOpen) => {}
    }
    // Hints and the chain have no transaction together. An entry for a breaker that was not closed after all does less harm than
    // one that is closed without a name beside it.
    let change = audited(name, decision);
    admin_audit::put_all(&engine.ports.store, Vec::new(), change).await?;
    let closed = closed_by_a_person(&breaker, Some(decision.actor)).await;
    closed.ok_or(BreakerError::NoHints)?;
    Ok(Vec::new())
}

/// The processes that are to close theirs.
async fn close_in_each(
    engine: &Engine,
    name: &str,
    decision: BreakerDecision<'_>,
) -> Result<Vec<String>, BreakerError> {
    let mut views = breakers_of_all(engine).await?.into_iter();
    let found = views.find(|it| it.name == name);
    let mut found = found.ok_or(BreakerError::Unknown)?;
    if found.state == BreakerStanding::Closed {
        return Ok(Vec::new());
    }
    let tenant = Tenant::default();
    let body = write_document(
        KIND,
        &json!({ "by": decision.actor, "note": decision.note }),
    )?;
    let names = [name];
    let written = edit(&engine.ports.store, KIND, &tenant, &names, |read| {
        let write = DocumentWrite {
            kind: KIND,
            tenant: tenant.clone(),
            name: name.to_owned(),
            expected: Some(read.rows.first().map_or(Rev(0), |row| row.rev)),
            change: DocumentChange::Put {
                body: body.clone(),
                due_at: None,
            },
        };
        Ok::<_, StoreError>(Edit::write(write, ()).audited(audited(name, decision)))
    });
    written.await?.ok_or_else(|| busy(KIND))?;
    if let Some(breaker) = declared(engine).remove(name) {
        closed_by_a_person(&breaker, Some(decision.actor)).await;
    }
    let id = engine.id.to_string();
    found.processes.retain(|process| *process != id);
    Ok(found.processes)
}
