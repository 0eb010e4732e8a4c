//! Cancels. One row decides between a cancel and a completion: the second commit sees the first.

use crate::change::{Author, ChangeError};
use crate::draft::{Decision, Draft, will_undo};
use crate::engine::Engine;
use crate::ports::Signal;
use crate::record::UndoGoal;
use crate::record::load;
use crate::saga::Illegal;
use counterstep_contracts::http::{CancelAnswer, CancelOutcome};
use counterstep_contracts::{TaskId, TaskStatus};
use futures::future::BoxFuture;

/// A cancel was accepted, or had been before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancelled {
    /// The answer's body.
    pub answer: CancelAnswer,
    /// A cancel had been accepted before.
    pub again: bool,
}

/// A cancel was refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No such task.
    #[error("there is no such task")]
    Gone,
    /// Its type does not allow it.
    #[error("tasks of this type cannot be cancelled")]
    NotCancellable,
    /// It is past that; in this state.
    #[error("the task is {0}")]
    TooLate(TaskStatus),
    /// This process does not know its type.
    #[error("this process does not know the task's type")]
    UnknownType,
    /// The store does not answer.
    #[error(transparent)]
    Change(ChangeError),
}

/// Accepts a cancel, or says why not.
///
/// # Errors
/// [`Refusal`].
pub fn cancel<'a>(
    engine: &'a Engine,
    task: TaskId,
    actor: &'a str,
) -> BoxFuture<'a, Result<Cancelled, Refusal>> {
    cancel_for(engine, task, actor, None)
}

/// The same, of a person who says why.
///
/// # Errors
/// [`Refusal`].
pub(crate) fn cancel_for<'a>(
    engine: &'a Engine,
    task: TaskId,
    actor: &'a str,
    decision: Option<Decision>,
) -> BoxFuture<'a, Result<Cancelled, Refusal>> {
    Box::pin(async move {
        let record = load::read(engine, task)
            .await
            .map_err(|error| Refusal::Change(error.into()))?;
        let record = record.ok_or(Refusal::Gone)?;
        let task_type = engine
            .registry
            .of(&*record.task)
            .ok_or(Refusal::UnknownType)?;
        let changed = engine.change(Author::client(actor), &task_type, record, |draft| {
            let again = is_again(draft);
            let outcome = accept_cancel(draft, decision.as_ref())?;
            let answer = |outcome| CancelAnswer {
                task_id: task,
                status: draft.status(),
                outcome,
                will_undo: will_undo(draft.decl(), draft.record()),
            };
            Ok(outcome.map(|outcome| Cancelled {
                answer: answer(outcome),
                again,
            }))
        });
        let cancelled = changed.await.map_err(Refusal::Change)?.answer?;
        if cancelled.answer.outcome == CancelOutcome::Stopping {
            engine.ports.signals.send(Signal::CancelRequested(task));
        }
        Ok(cancelled)
    })
}

/// Whether a cancel was accepted before, and holds still.
fn is_again(draft: &Draft) -> bool {
    draft.is_cancel_requested() && draft.record().task.goal != Some(UndoGoal::Failed)
}

/// Adds the cancel to the draft, or says why not. A cancel that was accepted before changes nothing.
///
/// # Errors
/// As the judge says.
pub fn accept_cancel(
    draft: &mut Draft,
    decision: Option<&Decision>,
) -> Result<Result<CancelOutcome, Refusal>, Illegal> {
    let status = draft.status();
    let again = is_again(draft);
    Ok(match status {
        TaskStatus::Cancelled => Ok(CancelOutcome::AlreadyCancelled),
        // Also after a take-back: the next host that claims it honours the cancel.
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Waiting
        | TaskStatus::Running
            if again =>
        {
            Ok(CancelOutcome::Stopping)
        }
        TaskStatus::Compensating if again => Ok(CancelOutcome::Undoing),
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Waiting
        | TaskStatus::Running
            if !draft.decl().cancellable =>
        {
            Err(Refusal::NotCancellable)
        }
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Waiting
        | TaskStatus::Running => {
            let stopping = draft.cancel(decision)?;
            Ok(match draft.status() {
                TaskStatus::Cancelled => CancelOutcome::NothingHadRun,
                _ if stopping => CancelOutcome::Stopping,
                _ => CancelOutcome::Undoing,
            })
        }
        TaskStatus::Completed
        | TaskStatus::Compensating
        | TaskStatus::CompensationFailed
        | TaskStatus::Failed
        | TaskStatus::DeadLettered
        | TaskStatus::Resolved => Err(Refusal::TooLate(status)),
    })
}
