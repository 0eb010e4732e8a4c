//! Tasks that cannot be read. They are parked for a person, with what is wrong as the reason, and
//! nothing else has to wait for them. What is left of their rows stays as it is.

use crate::draft::{As, Draft};
use crate::engine::{ChangeError, Engine};
use crate::ports::{CommitError, Salvaged, StoreError, Unread};
use crate::record::{StepRow, TaskRecord};
use crate::task::TaskType;
use counterstep_contracts::{TaskId, TaskStatus};
use futures::future::BoxFuture;

/// So often another writer may be faster before the task is left to the next sweep.
const TRIES: u32 = 5;

/// What became of a task that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quarantine {
    /// It is parked.
    Parked(TaskStatus),
    /// It can be read again, it is leased, or it is gone.
    MovedOn,
    /// This process does not know its type, or the form of its rows: another one may be able to
    /// read it.
    Unknown,
}

impl Engine {
    /// A task for looking at and for deciding on. One that is at rest is there even where not all
    /// of it can be read: then with what can be.
    ///
    /// # Errors
    /// When the store does not answer, or an active task cannot be read.
    pub fn read(&self, task: TaskId) -> BoxFuture<'_, Result<Option<TaskRecord>, StoreError>> {
        Box::pin(async move {
            let (mut record, error) = match self.ports.store.load(task).await {
                Ok(None) => return Ok(None),
                Ok(Some(record)) => (record, None),
                Err(error @ StoreError::Corrupt(_)) => {
                    match self.ports.store.salvage(task).await? {
                        None => return Ok(None),
                        Some(Salvaged { record, .. }) => (record, Some(error)),
                    }
                }
                Err(error) => return Err(error),
            };
            if record.task.status.is_at_rest() {
                if let Some(task_type) = self.registry.of(&record.task) {
                    complete(&task_type, &mut record);
                }
            } else if let Some(error) = error {
                return Err(error);
            }
            Ok(Some(record))
        })
    }

    /// Parks a task that `load` cannot read, or whose steps are not those of its type.
    pub(crate) async fn quarantine(&self, task: TaskId) -> Result<Quarantine, ChangeError> {
        for _ in 0..TRIES {
            let Salvaged {
                mut record,
                mut unreadable,
            } = match self.ports.store.salvage(task).await {
                Ok(Some(salvaged)) => salvaged,
                Ok(None) => return Ok(Quarantine::MovedOn),
                Err(StoreError::Newer(_)) => return Ok(Quarantine::Unknown),
                Err(error) => return Err(error.into()),
            };
            // Who has it in memory knows more than the rows say.
            if record.lease_is_live() {
                return Ok(Quarantine::MovedOn);
            }
            let Some(task_type) = self.registry.of(&record.task) else {
                return Ok(Quarantine::Unknown);
            };
            unreadable.extend(misfit(&task_type, &record).map(|what| Unread {
                what,
                held: String::new(),
            }));
            if unreadable.is_empty() {
                return Ok(Quarantine::MovedOn);
            }
            if record.task.status.is_at_rest() {
                return Ok(Quarantine::Parked(record.task.status));
            }
            complete(&task_type, &mut record);
            let mut draft = Draft::new(task_type.decl, record, self.id.as_ref());
            draft.quarantine(&unreadable)?;
            let status = draft.status();
            let (guard, mut transition) = draft.finish(self.new_change_id(), As::Anyone);
            self.add_events(task_type.decl, &mut transition);
            match self.ports.store.commit(guard, &transition).await {
                Ok(committed) => {
                    let unreadable: Vec<_> = unreadable
                        .iter()
                        .map(|column| column.what.as_str())
                        .collect();
                    tracing::error!(%task, %status, ?unreadable, "a task cannot be read: parked for a person to decide");
                    self.announce_briefly(&transition, committed.now).await;
                    return Ok(Quarantine::Parked(status));
                }
                Err(
                    CommitError::Stale
                    | CommitError::Moved
                    | CommitError::Store(StoreError::Unknown(_)),
                ) => {}
                Err(CommitError::Fenced { .. }) => return Ok(Quarantine::MovedOn),
                Err(CommitError::KeyTaken) => return Err(ChangeError::KeyTaken),
                Err(CommitError::Condemned) => return Err(ChangeError::Condemned),
                Err(CommitError::Sql(refused)) => return Err(ChangeError::Sql(refused)),
                Err(CommitError::Store(error)) => return Err(error.into()),
            }
        }
        Ok(Quarantine::MovedOn)
    }
}

/// Whether the steps are those of the declaration, by number and name.
pub(crate) fn fits(task_type: &TaskType, record: &TaskRecord) -> bool {
    misfit(task_type, record).is_none()
}

fn misfit(task_type: &TaskType, record: &TaskRecord) -> Option<String> {
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
fn complete(task_type: &TaskType, record: &mut TaskRecord) {
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
