//! The count of lost hosts, set by hand: for a task whose hosts were lost for reasons that are not
//! its own, and which would be undone, or parked, at the next loss.

use super::OperatorError;
use super::settle::Ruled;
use crate::change::Author;
use crate::draft::{Decision, Draft};
use crate::engine::Engine;
use crate::record::load;
use counterstep_contracts::TaskId;
use counterstep_contracts::operator::RecoveriesAnswer;
use futures::future::BoxFuture;

/// What a person says the count is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recount {
    /// The number of consecutive host losses.
    pub attempts: u32,
    /// Who, as the audit is to say it.
    pub actor: String,
    /// Reason, for the audit.
    pub note: String,
}

/// Sets the task's counter of consecutive host losses. A change beside the lease, as a cancel is: the
/// host that runs the task finds it at its next commit, and goes on.
///
/// # Errors
/// [`OperatorError`]: the task has ended, or the count is above what its type allows.
pub fn set_recoveries(
    engine: &Engine,
    task: TaskId,
    to: Recount,
) -> BoxFuture<'_, Result<RecoveriesAnswer, OperatorError>> {
    Box::pin(async move {
        let record = load::read(engine, task)
            .await
            .map_err(|error| OperatorError::Change(error.into()))?;
        let record = record.ok_or(OperatorError::Gone)?;
        if record.task.status.is_terminal() {
            return Err(OperatorError::Ended(record.task.status));
        }
        let task_type = engine
            .registry
            .of(&*record.task)
            .ok_or(OperatorError::UnknownType)?;
        let allowed = task_type.decl.max_recoveries;
        let changed = engine.change(Author::client(&to.actor), &task_type, record, |draft| {
            recount(draft, &to)
        });
        let changed = changed.await.map_err(OperatorError::Change)?;
        changed.answer?;
        let row = &changed.record.task;
        let recovery_attempts = row.recovery_attempts;
        Ok(RecoveriesAnswer {
            task_id: row.id,
            status: row.status,
            recovery_attempts,
            allowed,
        })
    })
}

/// Sets the count in the draft, or says why not.
///
/// # Errors
/// As the judge says.
pub fn recount(draft: &mut Draft, to: &Recount) -> Ruled {
    if draft.status().is_terminal() {
        return Ok(Err(OperatorError::Ended(draft.status())));
    }
    let (asked, allowed) = (to.attempts, draft.decl().max_recoveries);
    // More than that is undone, or parked, the moment it is counted: no task continues with such a count.
    if asked > allowed {
        return Ok(Err(OperatorError::TooMany { asked, allowed }));
    }
    let decision = Decision {
        bulk: None,
        note: to.note.clone(),
    };
    draft.set_recoveries(asked, &decision).map(Ok)
}
