//! A task as it is read: beside its declaration, and where it is at rest also with what is left of
//! damaged rows. Must not change a task.

use crate::engine::Engine;
use crate::ports::{Loaded, StoreError};
use crate::record::{StepRow, TaskRecord};
use crate::task::TaskType;
use counterstep_contracts::TaskId;
use futures::future::BoxFuture;

/// A task for looking at and for deciding on. One that is at rest is there even where not all
/// of it can be read: then with what can be.
///
/// # Errors
/// When the store does not answer, or an active task cannot be read.
pub fn read(
    engine: &Engine,
    task: TaskId,
) -> BoxFuture<'_, Result<Option<TaskRecord>, StoreError>> {
    Box::pin(async move {
        let (mut record, error) = match engine.ports.store.load(task).await {
            Ok(None) => return Ok(None),
            Ok(Some(record)) => (record, None),
            Err(error @ StoreError::Corrupt(_)) => match engine.ports.store.salvage(task).await? {
                None => return Ok(None),
                Some(Loaded { record, .. }) => (record, Some(error)),
            },
            Err(error) => return Err(error),
        };
        if record.task.status.is_at_rest() {
            if let Some(task_type) = engine.registry.of(&*record.task) {
                complete(&task_type, &mut record);
            }
        } else if let Some(error) = error {
            return Err(error);
        }
        Ok(Some(record))
    })
}

/// Whether the steps are those of the declaration, by number and name.
#[must_use]
pub fn fits(task_type: &TaskType, record: &TaskRecord) -> bool {
    misfit(task_type, record).is_none()
}

/// How the steps differ from those of the declaration; `None`: they do not.
pub(crate) fn misfit(task_type: &TaskType, record: &TaskRecord) -> Option<String> {
    let declared = task_type.decl.steps.iter().map(|step| (step.no, step.name));
    let there = record.steps.iter().map(|row| (row.no, row.name.as_str()));
    (!declared.eq(there)).then(|| {
        let names: Vec<_> = record
            .steps
            .iter()
            .map(|row| format!("{} {}", row.no, row.name))
            .collect();
        format!(
            "steps: there are [{}], which are not those of the declaration",
            names.join(", ")
        )
    })
}

/// Puts the steps in the order of the declaration. One without a row counts as never started.
pub(crate) fn complete(task_type: &TaskType, record: &mut TaskRecord) {
    if fits(task_type, record) {
        return;
    }
    let mut rows = std::mem::take(&mut record.steps);
    record.steps = task_type
        .decl
        .steps
        .iter()
        .map(|step| match rows.iter().position(|row| row.no == step.no) {
            Some(at) => StepRow {
                name: step.name.to_owned(),
                ..rows.swap_remove(at)
            },
            None => StepRow::pending(step.no, step.name),
        })
        .collect();
}
