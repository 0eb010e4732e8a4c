//! What a bulk operation does with one task: the same call as for one alone. Done twice, after a process ended in
//! between, it comes to the same.

use super::operation::{BulkSpec, Operation};
use super::outcome::{Chosen, Outcome};
use crate::change::ChangeError;
use crate::client::request_edit::RequestEdit;
use crate::client::{self, AgainError, CannotKeep, Refusal, RunAgain, SubmitError};
use crate::draft::{BULK, Decision};
use crate::engine::Engine;
use crate::operator::{self, OfBulk, OperatorError, Resolution, Retrial};
use crate::ports::{ObjectError, StoreError};
use crate::record::TaskRow;
use crate::record::load;
use counterstep_contracts::bulk::BulkAction;
use counterstep_contracts::operator::OperatorAnswer;
use counterstep_contracts::{Rev, SettledAs, TaskId};
use std::time::Duration;

/// Maximum tries on a revision conflict; then the task is left alone.
const TRIES: u32 = 5;

/// How often another process that executes the same submission is waited for, and how long each time.
const LOOKS: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);

/// Decides on one task of a slice.
///
/// # Errors
/// [`StoreError`], where a server does not answer: nothing is known of the task then.
pub(super) async fn one(
    engine: &Engine,
    id: &str,
    operation: &Operation,
    chosen: Chosen,
) -> Result<Outcome, StoreError> {
    match operation.spec.action {
        BulkAction::Redrive | BulkAction::Resolve => parked(engine, id, operation, chosen).await,
        BulkAction::Cancel => cancel(engine, id, &operation.spec, chosen).await,
        BulkAction::RunAgain => run_again(engine, id, &operation.spec, chosen.task).await,
    }
}

async fn parked(
    engine: &Engine,
    id: &str,
    operation: &Operation,
    Chosen { task, rev, .. }: Chosen,
) -> Result<Outcome, StoreError> {
    let mut rev = rev;
    for _ in 0..TRIES {
        match decide(engine, id, &operation.spec, task, rev).await {
            Ok(_) => return Ok(Outcome::DONE),
            Err(OperatorError::Moved | OperatorError::NotParked(_)) => {}
            Err(OperatorError::Gone | OperatorError::Change(ChangeError::Gone)) => break,
            Err(OperatorError::Change(ChangeError::Store(error))) => return of_store(error),
            Err(error @ OperatorError::UnknownType) => {
                return Ok(Outcome::Undecided(error.to_string()));
            }
            Err(error) => return Ok(Outcome::Failed(error.to_string())),
        }
        // Changed by this operation, before the process that did it ended; by others; or by a sweep of its
        // objects, which is no change for people. The revision is read before the journal: where that has
        // no entry of this operation, there was none at that revision.
        let there = load::read(engine, task).await?;
        if done_at(engine, id, task).await?.is_some() {
            return Ok(Outcome::DONE);
        }
        let same = |row: &TaskRow| {
            row.status.is_parked() && row.updated_at <= operation.created_at && row.rev != rev
        };
        match there.filter(|there| same(&there.task)) {
            Some(there) => rev = there.task.rev,
            None => break,
        }
    }
    Ok(Outcome::Skipped)
}

async fn decide(
    engine: &Engine,
    id: &str,
    spec: &BulkSpec,
    task: TaskId,
    rev: Rev,
) -> Result<OperatorAnswer, OperatorError> {
    let (actor, note) = (spec.actor.clone(), spec.note.clone());
    let id = id.to_owned();
    let bulk = Some(OfBulk { id, rev });
    if spec.action == BulkAction::Resolve {
        let resolution = Resolution {
            step: None,
            settled: spec.settled.unwrap_or(SettledAs::Skipped),
            output: None,
            task: None,
            actor,
            note,
            bulk,
        };
        return operator::resolve(engine, task, resolution).await;
    }
    let retrial = Retrial {
        direction: None,
        edit: spec.patch.clone().map(RequestEdit::Patch),
        actor,
        note,
        bulk,
    };
    operator::retry(engine, task, retrial).await
}

/// What an error of the store says of a task.
fn of_store(error: StoreError) -> Result<Outcome, StoreError> {
    match error {
        // It will not go away.
        StoreError::Corrupt(_) => Ok(Outcome::Failed(error.to_string())),
        StoreError::Unsupported(why) => Ok(Outcome::Undecided(why)),
        StoreError::Unavailable(_) | StoreError::Unknown(_) => Err(error),
    }
}

/// The revision at which the journal of a task has an entry of this operation; `None`: it has none.
async fn done_at(engine: &Engine, id: &str, task: TaskId) -> Result<Option<Rev>, StoreError> {
    let history = match engine.ports.store.history(task).await {
        Err(error) if !error.may_pass() => return Ok(None),
        history => history?,
    };
    let mut entries = history.audit.iter().rev();
    let Some(row) = entries.find(|row| row.entry.details[BULK] == id) else {
        return Ok(None);
    };
    let mut changes = history.changes.iter();
    let change = changes.find(|(_, change)| *change == row.change_id);
    Ok(change.map(|(rev, _)| *rev))
}

/// A cancel that was accepted before is accepted again.
async fn cancel(
    engine: &Engine,
    id: &str,
    spec: &BulkSpec,
    Chosen { task, rev, .. }: Chosen,
) -> Result<Outcome, StoreError> {
    let decision = Decision {
        note: spec.note.clone(),
        bulk: Some(id.to_owned()),
    };
    match client::cancel_for(engine, task, &spec.actor, Some(decision)).await {
        Ok(cancelled) if cancelled.again => {
            let done_at = done_at(engine, id, task).await?;
            let is_counted = done_at.is_some_and(|done_at| done_at <= rev);
            Ok(if is_counted {
                Outcome::Counted
            } else {
                Outcome::DONE
            })
        }
        Ok(_) => Ok(Outcome::DONE),
        // What this operation has cancelled may be undone by now.
        Err(Refusal::TooLate(_)) if done_at(engine, id, task).await?.is_some() => Ok(Outcome::DONE),
        Err(Refusal::Gone | Refusal::TooLate(_) | Refusal::Change(ChangeError::Gone)) => {
            Ok(Outcome::Skipped)
        }
        Err(Refusal::Change(ChangeError::Store(error))) => of_store(error),
        Err(error @ Refusal::UnknownType) => Ok(Outcome::Undecided(error.to_string())),
        Err(error) => Ok(Outcome::Failed(error.to_string())),
    }
}

/// Makes one new task, however many operations are for the task: what it did once more is not done a third time. What
/// others have done of it shows in its successors. Of operations that decide on it at the same time the key, which is
/// the same for all of them, makes the first one's task.
async fn run_again(
    engine: &Engine,
    id: &str,
    spec: &BulkSpec,
    task: TaskId,
) -> Result<Outcome, StoreError> {
    for _ in 0..LOOKS {
        if let Some(outcome) = ran_again(engine, id, spec, task).await? {
            return Ok(outcome);
        }
        let order = RunAgain {
            key: Some(format!("bulk:{task}")),
            traceparent: engine.traceparent_of_submission(None),
            bulk: Some(id.to_owned()),
            ..spec.to_run_again()
        };
        return match client::run_again(engine, task, order).await {
            Ok(again) if again.replayed => {
                let new_task = Some(again.answer.task_id);
                let done_at = done_at(engine, id, again.answer.task_id).await?;
                Ok(done_at.map_or(Outcome::AlreadyRunAgain, |_| Outcome::Done { new_task }))
            }
            Ok(again) => Ok(Outcome::Done {
                new_task: Some(again.answer.task_id),
            }),
            // Another operation, with another patch or from another step.
            Err(AgainError::Submit(error @ SubmitError::KeyMismatch)) => {
                let ran_again = ran_again(engine, id, spec, task).await?;
                Ok(ran_again.unwrap_or_else(|| Outcome::Failed(error.to_string())))
            }
            Err(AgainError::Gone | AgainError::NotEnded(_)) => Ok(Outcome::Skipped),
            // A process that was taken for gone copies large files still.
            Err(AgainError::Submit(SubmitError::InProgress)) => {
                engine.ports.clock.sleep(PAUSE).await;
                continue;
            }
            Err(AgainError::Submit(SubmitError::Store(error))) => of_store(error),
            Err(AgainError::Submit(SubmitError::Objects(ObjectError::Unavailable(why)))) => {
                Err(StoreError::Unavailable(why))
            }
            Err(
                error
                @ (AgainError::UnknownType | AgainError::Kept(CannotKeep::DeclarationChanged)),
            ) => Ok(Outcome::Undecided(error.to_string())),
            Err(error) => Ok(Outcome::Failed(error.to_string())),
        };
    }
    // A later slice retries it, once that process has finished, or is taken for gone.
    Err(StoreError::Unavailable(
        "another process copies the files of a task still".to_owned(),
    ))
}

/// What became of a task that has successors; `None`: it has none.
async fn ran_again(
    engine: &Engine,
    id: &str,
    spec: &BulkSpec,
    task: TaskId,
) -> Result<Option<Outcome>, StoreError> {
    let store = &engine.ports.store;
    let successors = store.successors(&spec.selection.tenant, task).await?;
    for successor in &successors {
        if done_at(engine, id, *successor).await?.is_some() {
            return Ok(Some(Outcome::Done {
                new_task: Some(*successor),
            }));
        }
    }
    Ok((!successors.is_empty()).then_some(Outcome::AlreadyRunAgain))
}
