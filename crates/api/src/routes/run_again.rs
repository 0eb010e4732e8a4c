//! `POST /api/tasks/{id}/run-again`: a new task does what one that has ended was to do. The kernel says whether
//! it can; here the body is checked, and refusals get their codes.

use super::address::{load, task_id};
use super::answer::Answer;
use super::operator::{body, edit, edit_refused, note};
use super::submit::located;
use crate::app_state::Api;
use crate::caller::Caller;
use crate::headers::{idempotency_key, traceparent};
use crate::problem::{Refused, invalid, no_such_task, unknown_type};
use crate::query::Params;
use actix_web::http::header::RETRY_AFTER;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_contracts::run_again::RunAgainRequest;
use counterstep_kernel::client::{self, AgainError, CannotKeep, RunAgain};

pub(super) async fn post(
    api: web::Data<Api>,
    caller: Caller,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let key = idempotency_key(&request)?;
    let traceparent = traceparent(request.headers());
    let body: RunAgainRequest = body(&api, &request, payload).await?;
    let order = RunAgain {
        from: body.from,
        edit: edit(body.request, body.patch)?,
        actor: caller.actor("operator"),
        note: note(&body.note, body.actor.as_deref())?,
        key,
        traceparent: api.engine.traceparent_of_submission(traceparent),
        bulk: None,
    };
    load(&api, &caller, id).await?;
    let engine = api.engine.clone();
    let running = async move {
        client::run_again(&engine, id, order)
            .await
            .map_err(Refused::from)
    };
    let submitted = api.finish("running a task again", running).await?;
    let mut answer = HttpResponse::Accepted();
    answer.insert_header((RETRY_AFTER, "1"));
    Ok(located(
        &request,
        answer.json(&submitted.answer),
        &submitted,
    ))
}

impl From<AgainError> for Refused {
    fn from(error: AgainError) -> Self {
        let detail = error.to_string();
        match error {
            AgainError::Gone => no_such_task(),
            AgainError::UnknownType => unknown_type(),
            AgainError::NotEnded(status) if status.is_parked() => Self::new(
                ProblemCode::NotEnded,
                format!(
                    "the task is {status}, and goes on from where it stands: retry it, or resolve it first"
                ),
            ),
            AgainError::NotEnded(_) => Self::new(ProblemCode::NotEnded, detail),
            AgainError::ParentOpen { .. } => Self::new(ProblemCode::NotEnded, detail).at("from"),
            AgainError::Kept(why) => {
                let code = match why {
                    CannotKeep::NoSuchStep(_) => ProblemCode::NoSuchStep,
                    CannotKeep::DeclarationChanged => ProblemCode::DeclarationChanged,
                    CannotKeep::Undone { .. } => ProblemCode::EffectsUndone,
                    CannotKeep::NotCompleted { .. } => ProblemCode::StepNotCompleted,
                    CannotKeep::Submitted(_) => ProblemCode::TasksSubmitted,
                    CannotKeep::Scratch { .. } => ProblemCode::ScratchRead,
                    CannotKeep::Erased(_) => ProblemCode::PayloadErased,
                    CannotKeep::KeyAlone(_) => ProblemCode::FilesGone,
                };
                Self::new(code, detail).at("from")
            }
            AgainError::Edit(error) => edit_refused(error),
            AgainError::Erased => Self::new(ProblemCode::PayloadErased, detail),
            AgainError::FilesGone { .. } => Self::new(ProblemCode::FilesGone, detail),
            // No client sends it now: it fits no type that is there, or a type that has changed.
            AgainError::Submit(client::SubmitError::Invalid(error)) => {
                invalid(error.message).at(format!("request.{}", error.pointer))
            }
            AgainError::Submit(error) => error.into(),
        }
    }
}
