//! Which version of the program ran the first task of a group: it names the build since which tasks are parked for this cause.
//! Worked out when it is asked for, of few groups: a task keeps the process, and the worker registry has the version for as long
//! as it has the process. Must not change a task.

use super::groups::LARGEST;
use crate::journal::{Fold, JournalWalk};
use crate::ports::{Store, StoreError};
use counterstep_contracts::TaskId;
use counterstep_contracts::groups::DeadLetterGroup;
use std::collections::HashMap;

/// Maximum number of rows that are read of a task.
const ROWS: u32 = 500;

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
        let worker = match last_worker(store, task).await {
            Err(error) if !error.may_pass() => {
                tracing::error!(%task, %error, "the past of a parked task cannot be read");
                continue;
            }
            worker => worker?,
        };
        let program = worker.and_then(|it| programs.get(&it));
        group.first_program = program.cloned();
    }
    Ok(())
}

/// The process whose change has started the last attempt. `None`: there was none, or the task has a very long past.
async fn last_worker(store: &Store, task: TaskId) -> Result<Option<String>, StoreError> {
    let (mut fold, mut actors) = (Fold::new(task), HashMap::new());
    let mut walk = JournalWalk::of(store, Some(task.to_string()));
    for _ in 0..ROWS {
        let Some(row) = walk.next().await? else {
            let last = fold.attempts().last().map(|it| it.change_id);
            return Ok(last.and_then(|it| actors.remove(&it)));
        };
        if let Some(row) = row.journal_row() {
            // Damage is for the check of the audit.
            drop(fold.push_damaged(&row));
            actors.insert(row.change_id, row.actor);
        }
    }
    Ok(None)
}
