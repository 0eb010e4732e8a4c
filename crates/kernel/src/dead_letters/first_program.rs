//! Which version of the program ran the first task of a group: it names the build since which tasks are parked for this cause.
//! Worked out when it is asked for, of few groups: a task keeps the process, and the worker registry has the version for as long
//! as it has the process. Must not change a task.

use super::groups::LARGEST;
use crate::journal::{Fold, short_past};
use crate::ports::{Store, StoreError};
use crate::record::History;
use counterstep_contracts::groups::DeadLetterGroup;
use std::collections::HashMap;

/// Adds to the largest groups the version of the program that ran the last attempt of the first task of each, where the worker
/// registry has the process still. Reads the registry once, and the past of one task of each group.
///
/// # Errors
/// [`StoreError`].
pub async fn add_first_programs(
    store: &Store,
    groups: &mut [DeadLetterGroup],
) -> Result<(), StoreError> {
    if groups.is_empty() {
        return Ok(());
    }
    let workers = store.workers().await?.rows.into_iter();
    let programs: HashMap<_, _> = workers.map(|it| (it.row.id, it.row.program)).collect();
    for group in groups.iter_mut().take(LARGEST) {
        let Some(task) = group.first else { continue };
        let past = short_past(store, task, Fold::with_history(task)).await?;
        let worker = past.and_then(|it| last_worker(&it.into_history()));
        let program = worker.and_then(|it| programs.get(&it));
        group.first_program = program.cloned();
    }
    Ok(())
}

/// The process whose change has started the last attempt.
fn last_worker(past: &History) -> Option<String> {
    let last = past.attempts.last()?;
    let mut audit = past.audit.iter();
    let start = audit.find(|row| row.change_id == last.change_id)?;
    Some(start.entry.actor.clone())
}
