//! Why a task stands where it does whose rows cannot be read: damaged ones, which a host parks, and those of a newer program.
//! Reads; must not change a task.

use super::LONG;
use super::evidence::Surroundings;
use super::reason::reason;
use super::takers::takers;
use crate::engine::Engine;
use crate::ports::{Loaded, StoreError};
use crate::times::rfc3339;
use counterstep_contracts::operator::{Why, WhyCode, WhyReason};
use counterstep_contracts::{TaskId, TaskStatus};
use futures::future::BoxFuture;

/// Maximum number of columns and rows that are named.
const NAMED: usize = 3;

/// The answer for a task of the caller's that could not be read for this reason. Another reason is given back.
///
/// # Errors
/// When it is not the rows that cannot be read, or the store does not answer.
pub fn why_unreadable(
    engine: &Engine,
    task: TaskId,
    error: StoreError,
) -> BoxFuture<'_, Result<Why, StoreError>> {
    Box::pin(async move {
        let store = &engine.ports.store;
        let (status, found) = match error {
            StoreError::Corrupt(_) => match store.salvage(task).await? {
                Some(salvaged) => damaged(engine, salvaged).await,
                None => return Err(error),
            },
            StoreError::Unsupported(ref why) => {
                let lines = store.lines(&[task]).await?;
                let line = lines.first().ok_or_else(|| error.clone())?;
                let detail = format!(
                    "a newer program has written it, and this one cannot read it: run that program ({why})"
                );
                (line.status, reason(WhyCode::NewerProgram, detail))
            }
            other => return Err(other),
        };
        Ok(Why {
            task_id: task,
            status,
            parent: None,
            because: vec![found],
            operator_can: Vec::new(),
            group: None,
            cause: None,
        })
    })
}

async fn damaged(engine: &Engine, salvaged: Loaded) -> (TaskStatus, WhyReason) {
    let Loaded {
        record, unreadable, ..
    } = salvaged;
    let workers = engine.ports.store.workers().await;
    let workers =
        workers.inspect_err(|error| tracing::warn!(%error, "the worker registry cannot be read"));
    let around = Surroundings {
        workers: workers.ok(),
        ..Surroundings::default()
    };
    let named = unreadable.iter().take(NAMED).map(|of| of.what.as_str());
    let named: Vec<_> = named.collect();
    let mut detail = format!("its rows cannot be read ({})", named.join("; "));
    // What is at rest no turn claims.
    let is_at_rest = record.task.status.is_at_rest();
    if !is_at_rest {
        detail.push_str(": the next turn parks it, for a person to decide on what is left of it");
        detail.push_str(&takers(&record, &around));
    }
    let found = WhyReason {
        until: (!is_at_rest).then(|| rfc3339(record.now.later(LONG))),
        ..reason(WhyCode::Unreadable, detail)
    };
    (record.task.status, found)
}
