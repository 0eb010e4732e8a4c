//! Signals: what a client sends to a step that waits for it, or will. One row decides between a
//! signal and the deadline of the step: the second commit sees the first.

use crate::change::{Author, ChangeError};
use crate::draft::Draft;
use crate::engine::Engine;
use crate::error::StepError;
use crate::plan;
use crate::record::{DbTime, SignalRow};
use crate::saga::Illegal;
use crate::task::{RequestError, TaskType, output};
use crate::times::rfc3339;
use counterstep_contracts::http::SignalAnswer;
use counterstep_contracts::{StepStatus, TaskDecl, TaskId, TaskStatus, WaitDecl};
use futures::future::BoxFuture;
use serde_json::Value;

/// A signal was refused.
#[derive(Debug, thiserror::Error)]
pub enum SignalRefusal {
    /// No such task.
    #[error("there is no such task")]
    Gone,
    /// This process does not know its type, or knows another definition of it.
    #[error("this process does not know the task's type")]
    UnknownType,
    /// No step of the type waits for a signal of this name.
    #[error("tasks of this type wait for no such signal")]
    NoSuchSignal {
        /// Those that they wait for.
        known: Vec<&'static str>,
    },
    /// The body does not fit the type that the step waits for.
    #[error(transparent)]
    Invalid(RequestError),
    /// Another body was accepted before.
    #[error("another body was accepted for this signal before")]
    Taken,
    /// No step waits for it any more.
    #[error("the task is {task} and the step {step}{}", if *cancelled { ", and a cancel was accepted" } else { "" })]
    TooLate {
        /// Where the task stands.
        task: TaskStatus,
        /// Where the step stands.
        step: StepStatus,
        /// A cancel was accepted.
        cancelled: bool,
    },
    /// The store does not answer.
    #[error(transparent)]
    Change(ChangeError),
}

/// Accepts a signal for the step that it is named after, whether or not the step waits for it
/// yet. The same body once more gets the first answer. `actor` stands in the audit.
///
/// # Errors
/// [`SignalRefusal`].
pub fn signal<'a>(
    engine: &'a Engine,
    task: TaskId,
    name: &'a str,
    body: Value,
    actor: &'a str,
) -> BoxFuture<'a, Result<SignalAnswer, SignalRefusal>> {
    Box::pin(async move {
        let record = engine
            .ports
            .store
            .load(task)
            .await
            .map_err(|error| SignalRefusal::Change(error.into()))?;
        let record = record.ok_or(SignalRefusal::Gone)?;
        let task_type = engine
            .registry
            .of(&*record.task)
            .ok_or(SignalRefusal::UnknownType)?;
        let at = position(task_type.decl, name)?;
        let body = checked(&task_type, at, body)?;
        engine.settings.output_limit.check(&body).map_err(invalid)?;
        let changed = engine.change(Author::client(actor), &task_type, record, |draft| {
            accept_signal(draft, name, &body, actor)
        });
        let received_at = changed.await.map_err(SignalRefusal::Change)?.answer?;
        Ok(SignalAnswer {
            task_id: task,
            signal: name.to_owned(),
            received_at: rfc3339(received_at),
        })
    })
}

/// Adds a body that fits to the draft, or says why not. The same body once more changes nothing.
///
/// # Errors
/// As the judge says.
pub fn accept_signal(
    draft: &mut Draft,
    name: &str,
    body: &Value,
    actor: &str,
) -> Result<Result<DbTime, SignalRefusal>, Illegal> {
    let at = match position(draft.decl(), name) {
        Ok(at) => at,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let step = draft.step(at);
    if let Some(before) = &step.signal {
        return Ok(if before.body == *body {
            Ok(before.at)
        } else {
            Err(SignalRefusal::Taken)
        });
    }
    let (status, step, cancelled) = (draft.status(), step.status, draft.is_cancel_requested());
    let forward = matches!(
        status,
        TaskStatus::Submitted | TaskStatus::Dispatched | TaskStatus::Running | TaskStatus::Waiting
    );
    let awaited = plan::waits(&draft.decl().steps[at], draft.step(at)).is_some()
        && matches!(step, StepStatus::Pending | StepStatus::Waiting);
    if cancelled || !forward || !awaited {
        return Ok(Err(SignalRefusal::TooLate {
            task: status,
            step,
            cancelled,
        }));
    }
    let now = draft.record().now;
    draft.receive_signal(
        at,
        SignalRow {
            body: body.clone(),
            actor: actor.to_owned(),
            at: now,
        },
    )?;
    Ok(Ok(now))
}

fn position(decl: &TaskDecl, name: &str) -> Result<usize, SignalRefusal> {
    let steps = decl.steps;
    let takes = |at: &usize| matches!(steps[*at].waits, Some(WaitDecl::Signal { .. }));
    let mut known = (0..steps.len()).filter(takes);
    known
        .clone()
        .find(|&at| steps[at].name == name)
        .ok_or_else(|| SignalRefusal::NoSuchSignal {
            known: known.by_ref().map(|at| steps[at].name).collect(),
        })
}

/// The body in the form in which it is stored.
fn checked(task_type: &TaskType, at: usize, body: Value) -> Result<Value, SignalRefusal> {
    let Some(read) = task_type.steps[at].signal else {
        return Err(SignalRefusal::NoSuchSignal { known: Vec::new() });
    };
    let body = read(body).map_err(SignalRefusal::Invalid)?;
    output(&body).map_err(invalid)
}

fn invalid(error: StepError) -> SignalRefusal {
    SignalRefusal::Invalid(RequestError::new(".", error.message))
}
