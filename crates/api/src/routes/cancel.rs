//! `DELETE /api/tasks/{id}`: asks for a cancel. The kernel decides; here its answers get their
//! codes.

use super::address::{load, task_id};
use super::answer::Answer;
use crate::app_state::Api;
use crate::caller::Caller;
use crate::problem::{Refused, no_such_task, unknown_type};
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::http::CancelOutcome;
use counterstep_contracts::{ProblemCode, TaskStatus};
use counterstep_kernel::client;
use counterstep_kernel::client::Refusal;

pub(super) async fn delete(api: web::Data<Api>, caller: Caller, request: HttpRequest) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    load(&api, &caller, id).await?;
    let (engine, actor) = (api.engine.clone(), caller.actor("client"));
    let cancelled = api
        .finish("cancelling", async move {
            client::cancel(&engine, id, &actor)
                .await
                .map_err(Refused::from)
        })
        .await?;
    Ok(match cancelled.answer.outcome {
        CancelOutcome::AlreadyCancelled => HttpResponse::Ok().json(cancelled.answer),
        CancelOutcome::NothingHadRun | CancelOutcome::Undoing | CancelOutcome::Stopping => {
            HttpResponse::Accepted().json(cancelled.answer)
        }
    })
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let (code, detail) = match refusal {
            Refusal::Gone => return no_such_task(),
            Refusal::Change(error) => return error.into(),
            Refusal::UnknownType => return unknown_type(),
            Refusal::NotCancellable => (
                ProblemCode::NotCancellable,
                "the declaration of its type does not allow it: wait for the task to end",
            ),
            Refusal::TooLate(status) => match status {
                TaskStatus::Completed => (
                    ProblemCode::AlreadyCompleted,
                    "it is too late to cancel it: its result is there",
                ),
                TaskStatus::Failed => (
                    ProblemCode::AlreadyFailed,
                    "there is nothing left to cancel",
                ),
                TaskStatus::Resolved => (
                    ProblemCode::AlreadyResolved,
                    "there is nothing left to cancel",
                ),
                TaskStatus::CompensationFailed | TaskStatus::DeadLettered => (
                    ProblemCode::Parked,
                    "an operator has to decide what becomes of it",
                ),
                TaskStatus::Compensating => (
                    ProblemCode::BeingUndone,
                    "it failed and is being undone already",
                ),
                // These can all be cancelled, so the kernel never says that it is too late for them.
                TaskStatus::Submitted
                | TaskStatus::Dispatched
                | TaskStatus::Running
                | TaskStatus::Waiting
                | TaskStatus::Cancelled => return Refused::internal("cancelling", &refusal),
            },
        };
        Refused::new(code, detail)
    }
}
