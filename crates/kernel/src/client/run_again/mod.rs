//! Runs a task that has ended again, as a new task that names it: from the start, or from a step, with what the
//! steps before it gave. Nothing of the old task changes, and the new one has copies of all files that it reads.

mod files;
mod kept_steps;

pub(super) use files::{FileRef, Place, foreign, refs, renamed};
pub use kept_steps::CannotKeep;
#[cfg(test)]
pub(crate) use kept_steps::kept as steps_behind;

use super::submission::{Submission, SubmitError, Submitted};
use super::upload_session::UploadSession;
use crate::client::request_edit::{EditError, RequestEdit};
use crate::digest::hex;
use crate::draft::{BULK, KeptStep};
use crate::engine::Engine;
use crate::ports::{StoreError, SubmissionOutcome};
use crate::record::TaskRow;
use crate::record::load;
use crate::task::{Registry, TaskType};
use crate::webhooks::WebhookUrl;
use counterstep_contracts::{Labels, TaskId, TaskStatus};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// How a task is to run again.
#[derive(Debug, Clone)]
pub struct RunAgain {
    /// The step from which it runs; `None`: from the start.
    pub from: Option<String>,
    /// What is to be different in its request.
    pub edit: Option<RequestEdit>,
    /// Who, as the audit is to say it.
    pub actor: String,
    /// Why.
    pub note: String,
    /// An `Idempotency-Key`: the same once more is the same new task.
    pub key: Option<String>,
    /// W3C trace context of the new task.
    pub traceparent: Option<String>,
    /// The bulk operation by which it is decided, where it is.
    pub bulk: Option<String>,
}

/// A task does not run again.
#[derive(Debug, thiserror::Error)]
pub enum AgainError {
    /// No such task.
    #[error("there is no such task")]
    Gone,
    /// It has not ended; so it is.
    #[error("the task is {0}: only one that has ended runs again")]
    NotEnded(TaskStatus),
    /// A task above it has not ended, and may still undo what it did.
    #[error(
        "the task belongs to task {parent}, which is {status} and may still undo it: until that one has ended it can run again from the start only"
    )]
    ParentOpen {
        /// Which.
        parent: TaskId,
        /// Where it stands.
        status: TaskStatus,
    },
    /// This process does not know its type.
    #[error("this process does not know the task's type")]
    UnknownType,
    /// Not from that step.
    #[error(transparent)]
    Kept(#[from] CannotKeep),
    /// Its request cannot be changed like that, or does not fit its type any more.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// Its request was erased.
    #[error("the request of the task has been erased: send another one, whole")]
    Erased,
    /// A file that it needs is not there, or is another one.
    #[error("the file `{name}` of the task cannot be copied: {why}")]
    FilesGone {
        /// Its key.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// As any submission.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl From<StoreError> for AgainError {
    fn from(error: StoreError) -> Self {
        Self::Submit(error.into())
    }
}

/// What is decided before anything is stored.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) predecessor: TaskId,
    pub(super) from: Option<String>,
    /// In its canonical form.
    pub(super) request: Value,
    /// In order; the first step that runs is behind them.
    pub(super) kept: Vec<KeptStep>,
    /// Of the predecessor, but for those that the engine sets.
    pub(super) labels: Labels,
    /// For the audit.
    pub(super) details: Value,
    pub(super) fingerprint: String,
}

/// Tells a repetition from another order. The request of the predecessor stays as it is.
fn fingerprint(predecessor: TaskId, order: &RunAgain) -> String {
    let mut order = json!(["again", predecessor, order.from, order.edit]);
    order.sort_all_objects();
    hex(&Sha256::digest(order.to_string().as_bytes()))
}

/// Submits a task that runs this one again. The caller has checked whose it is.
///
/// # Errors
/// [`AgainError`]; nothing is left behind then, but for what the sweep takes.
pub fn run_again(
    engine: &Engine,
    task: TaskId,
    order: RunAgain,
) -> BoxFuture<'_, Result<Submitted, AgainError>> {
    Box::pin(async move {
        let (task_type, mut session) = begin(engine, task, order).await?;
        let submitted = session.run_again().await;
        let outcome = match &submitted {
            Ok(submitted) => submitted.outcome(),
            Err(AgainError::Submit(error)) => error.outcome(),
            Err(_) => SubmissionOutcome::Refused,
        };
        engine.observe_answer(&task_type, outcome);
        session.unless_refused(submitted).await
    })
}

/// Whether a task would run again, as far as that shows before its files are copied. Changes nothing.
///
/// # Errors
/// [`AgainError`], as [`run_again`].
pub(crate) fn would_run_again(
    engine: &Engine,
    task: TaskId,
    order: RunAgain,
) -> BoxFuture<'_, Result<(), AgainError>> {
    Box::pin(async move {
        let (_, session) = begin(engine, task, order).await?;
        session.files_are_there().await
    })
}

/// The submission of the new task, of which nothing is stored yet.
async fn begin(
    engine: &Engine,
    task: TaskId,
    order: RunAgain,
) -> Result<(TaskType, UploadSession), AgainError> {
    let record = load::read(engine, task).await?.ok_or(AgainError::Gone)?;
    let row = &record.task;
    let task_type = again_type(&engine.registry, row, order.from.is_some())?;
    let kept = match &order.from {
        None => Vec::new(),
        Some(from) => {
            parents_have_ended(engine, row).await?;
            kept_steps::kept(task_type.decl, &record, from)?
        }
    };
    let request = again_request(&task_type, row, order.edit.as_ref())?;
    let plan = Plan {
        predecessor: task,
        from: order.from.clone(),
        fingerprint: fingerprint(task, &order),
        request,
        kept,
        labels: row.labels.clone(),
        details: details(row, &order),
    };
    let submission = Submission {
        tenant: row.tenant.clone(),
        actor: order.actor,
        key: order.key,
        traceparent: order.traceparent,
        webhook: webhook(engine, row),
        labels: Labels::new(),
    };
    let session = UploadSession::again(engine, task_type, submission, plan).await?;
    Ok((task_type, session))
}

/// The type that a task runs again as, or why it does not. `keeps`: from a step, with what those before it gave.
///
/// # Errors
/// [`AgainError`].
pub fn again_type(registry: &Registry, row: &TaskRow, keeps: bool) -> Result<TaskType, AgainError> {
    if !row.status.is_terminal() {
        return Err(AgainError::NotEnded(row.status));
    }
    // From the start it is a submission like any other.
    let newest = registry.newest(&row.task_type);
    let newest = newest.ok_or(AgainError::UnknownType)?;
    if !keeps {
        return Ok(newest);
    }
    Ok(registry.of(row).ok_or(CannotKeep::DeclarationChanged)?)
}

/// What a task did is undone with a parent that fails; what is kept of it must stay.
async fn parents_have_ended(engine: &Engine, row: &TaskRow) -> Result<(), AgainError> {
    let mut above = row.parent;
    while let Some(parent) = above {
        let Some(record) = load::read(engine, parent.task).await? else {
            break;
        };
        let status = record.task.status;
        if !status.is_terminal() {
            let parent = parent.task;
            return Err(AgainError::ParentOpen { parent, status });
        }
        above = record.task.parent;
    }
    Ok(())
}

/// The request of a task that runs again, or why there is none.
///
/// # Errors
/// [`AgainError`].
pub fn again_request(
    task_type: &TaskType,
    row: &TaskRow,
    edit: Option<&RequestEdit>,
) -> Result<Value, AgainError> {
    let read = task_type.read_request;
    match edit {
        Some(edit @ RequestEdit::Whole(_)) => Ok(edit.of(&row.request, read)?),
        _ if is_erased(task_type, row) => Err(AgainError::Erased),
        Some(edit) => Ok(edit.of(&row.request, read)?),
        None => Ok(read(row.request.clone()).map_err(EditError::from)?),
    }
}

/// Whether its request was erased.
pub(crate) fn is_erased(task_type: &TaskType, row: &TaskRow) -> bool {
    row.request.is_null() && (task_type.read_request)(Value::Null).is_err()
}

fn details(row: &TaskRow, order: &RunAgain) -> Value {
    let mut details = json!({
        "predecessor": row.id,
        "was": row.status,
        "note": order.note,
    });
    if let Some(from) = &order.from {
        details["from"] = json!(from);
    }
    if order.edit.is_some() {
        details["request_changed"] = json!(true);
    }
    if let Some(bulk) = &order.bulk {
        details[BULK] = json!(bulk);
    }
    details
}

/// The client of the old task is told of the new one too, where its address is one to which webhooks may
/// still go.
fn webhook(engine: &Engine, row: &TaskRow) -> Option<WebhookUrl> {
    let url = row.webhook.as_ref()?;
    let allowed = &engine.settings.webhook_allow;
    WebhookUrl::parse(url, allowed)
        .inspect_err(
            |error| tracing::warn!(task = %row.id, %error, "a task that runs again has no webhook"),
        )
        .ok()
}
