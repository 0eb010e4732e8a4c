//! Tasks that cannot be read. They are parked for a person, with what is wrong as the reason, and
//! nothing else has to wait for them. What is left of their rows stays as it is.

use crate::change::ChangeError;
use crate::change::announce::announce;
use crate::change::queue_wait::QueueWait;
use crate::draft::{As, Draft};
use crate::engine::Engine;
use crate::ports::{CommitError, Loaded, StoreError, Unread};
use crate::record::load::{complete, misfit};
use counterstep_contracts::{TaskId, TaskStatus};
use std::sync::Arc;

/// Maximum tries on a revision conflict; then the next sweep takes the task.
const TRIES: u32 = 5;

/// What became of a task that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quarantine {
    /// It is parked.
    Parked(TaskStatus),
    /// It can be read again, it is leased, or it is gone.
    MovedOn,
    /// This process does not know its type, or the form of its rows: another one may be able to
    /// read it.
    Unknown,
}

/// Parks a task that `load` cannot read, or whose steps are not those of its type.
///
/// # Errors
/// When the store does not answer, or refuses the change.
pub async fn quarantine(engine: &Engine, task: TaskId) -> Result<Quarantine, ChangeError> {
    for _ in 0..TRIES {
        let Loaded {
            mut record,
            mut unreadable,
        } = match engine.ports.store.salvage(task).await {
            Ok(Some(salvaged)) => salvaged,
            Ok(None) => return Ok(Quarantine::MovedOn),
            Err(StoreError::Unsupported(_)) => return Ok(Quarantine::Unknown),
            Err(error) => return Err(error.into()),
        };
        // Who has it in memory knows more than the rows say.
        if record.lease_is_live() {
            return Ok(Quarantine::MovedOn);
        }
        let Some(task_type) = engine.registry.of(&*record.task) else {
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
        let mut draft = Draft::new(task_type.decl, record, engine.id.as_ref());
        draft.quarantine(&unreadable)?;
        let status = draft.status();
        let (guard, transition, _) = engine.finish(draft, As::Anyone);
        let transition = Arc::new(transition);
        match engine.ports.store.commit(guard, transition.clone()).await {
            Ok(committed) => {
                let unreadable: Vec<_> = unreadable
                    .iter()
                    .map(|column| column.what.as_str())
                    .collect();
                tracing::error!(%task, %status, ?unreadable, "a task cannot be read: parked for a person to decide");
                announce(engine, &transition, committed.now, QueueWait::Brief).await;
                return Ok(Quarantine::Parked(status));
            }
            Err(
                CommitError::Stale
                | CommitError::Moved
                | CommitError::PlaceTaken
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
