//! The rows of many tasks, each with its type. Changes nothing.

use crate::engine::Engine;
use crate::ports::{LoadFor, StoreError};
use crate::record::TaskRecord;
use crate::task::TaskType;
use counterstep_contracts::TaskId;

/// These tasks, in any order; and how many of them are left out, since this program does not know their type or cannot read their rows.
pub(crate) async fn known_records(
    engine: &Engine,
    tasks: &[TaskId],
) -> Result<(Vec<(TaskType, TaskRecord)>, u64), StoreError> {
    let (mut known, mut unknown) = (Vec::new(), 0);
    for (_, record) in engine.ports.store.records(tasks, LoadFor::Look).await? {
        let record = record.ok();
        match record.and_then(|it| Some((engine.registry.of(&*it.task)?, it))) {
            Some(one) => known.push(one),
            None => unknown += 1,
        }
    }
    Ok((known, unknown))
}
