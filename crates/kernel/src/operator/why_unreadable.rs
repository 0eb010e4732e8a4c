//! Why a task stands where it does whose rows cannot be read: damaged ones, which a host parks, and those of a newer program.
//! Reads; must not change a task.

use super::why::LONG;
use super::why_hosts::takers;
use super::why_reason::reason;
use super::why_seen::Surroundings;
use crate::engine::Engine;
use crate::ports::{Loaded, StoreError};
use crate::times::rfc3339;
use counterstep_contracts::operator::{Why, WhyCode, WhyReason};
use counterstep_contracts::{TaskId, TaskStatus};
use futures::future::BoxFuture;

/// So many columns and rows are named.
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
                Some(salvaged) => damaged(engine, salvaged).await?,
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

async fn damaged(engine: &Engine, salvaged: Loaded) -> Result<(TaskStatus, WhyReason), StoreError> {
    let Loaded {
        record, unreadable, ..
    } = salvaged;
    let around = Surroundings {
        workers: Some(engine.ports.store.workers().await?),
        ..Surroundings::default()
    };
    let named = unreadable.iter().take(NAMED).map(|of| of.what.as_str());
    let named: Vec<_> = named.collect();
    let detail = format!(
        "its rows cannot be read ({}): the next turn parks it, for a person to decide on what is left of it{}",
        named.join("; "),
        takers(&record, &around)
    );
    let found = WhyReason {
        until: Some(rfc3339(record.now.later(LONG))),
        ..reason(WhyCode::Unreadable, detail)
    };
    Ok((record.task.status, found))
}
