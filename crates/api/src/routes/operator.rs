//! `POST /api/tasks/{id}/resolve` and `/retry`: what a person decides about a parked task;
//! `/recoveries`: how many of its hosts count as lost. The kernel decides what that leads to; here
//! the body is checked, and refusals get their codes.

use super::address::{load, task_id};
use super::answer::Answer;
use super::operation::json_body;
use crate::app_state::Api;
use crate::caller::Authenticated;
use crate::query::Params;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::operator::{RecoveriesRequest, ResolveRequest, RetryRequest};
use counterstep_contracts::{ProblemCode, TaskStatus};
use counterstep_kernel::change::ChangeError;
use counterstep_kernel::client::request_edit::RequestEdit;
use counterstep_kernel::operator;
use counterstep_kernel::operator::{OperatorError, Recount, Resolution, Retrial};
use counterstep_operations::{Refused, invalid, no_such_task, read_input, unknown_type};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) async fn resolve(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let body: ResolveRequest = body(&api, &request, payload).await?;
    let resolution = Resolution {
        step: body.step,
        settled: body.settled,
        output: body.output,
        task: body.task,
        actor: caller.actor("operator"),
        note: note(&body.note, body.actor.as_deref())?,
        bulk: None,
    };
    load(&api, &caller, id).await?;
    if let Some(task) = body.task {
        let of_another = || invalid("`task` is another task: the one that has done it").at("task");
        if task == id {
            return Err(of_another().into());
        }
        let found = load(&api, &caller, task).await;
        found.map_err(|refused| match refused.code() {
            ProblemCode::NoSuchTask => of_another(),
            _ => refused,
        })?;
    }
    let engine = api.engine.clone();
    let decided = async move {
        operator::resolve(&engine, id, resolution)
            .await
            .map_err(refused)
    };
    Ok(HttpResponse::Ok().json(api.finish("resolving", decided).await?))
}

pub(super) async fn retry(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let body: RetryRequest = body(&api, &request, payload).await?;
    let retrial = Retrial {
        direction: body.direction,
        edit: edit(body.request, body.patch)?,
        actor: caller.actor("operator"),
        note: note(&body.note, body.actor.as_deref())?,
        bulk: None,
    };
    load(&api, &caller, id).await?;
    let engine = api.engine.clone();
    let decided = async move { operator::retry(&engine, id, retrial).await.map_err(refused) };
    Ok(HttpResponse::Ok().json(api.finish("retrying", decided).await?))
}

pub(super) async fn recoveries(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let body: RecoveriesRequest = body(&api, &request, payload).await?;
    let actor = caller.actor("operator");
    let note = note(&body.note, body.actor.as_deref())?;
    load(&api, &caller, id).await?;
    let (engine, to) = (
        api.engine.clone(),
        Recount {
            attempts: body.recovery_attempts,
            actor,
            note,
        },
    );
    let decided = async move {
        operator::set_recoveries(&engine, id, to)
            .await
            .map_err(refused)
    };
    Ok(HttpResponse::Ok().json(api.finish("counting recoveries", decided).await?))
}

/// What is to be different in a request.
pub(super) fn edit(
    request: Option<Value>,
    patch: Option<Value>,
) -> Result<Option<RequestEdit>, Refused> {
    match (request, patch) {
        (Some(_), Some(_)) => {
            let detail = "send the whole `request`, or a `patch` of it, and not both";
            Err(invalid(detail).at("patch"))
        }
        (request, patch) => Ok(request
            .map(RequestEdit::Whole)
            .or(patch.map(RequestEdit::Patch))),
    }
}

/// The body of a request as its declared type, with no field that the type does not know.
pub(super) async fn body<T: Serialize + DeserializeOwned>(
    api: &Api,
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<T, Refused> {
    read_input(json_body(api, request, payload).await?)
}

/// The note of a decision, and behind it the name that the caller gives itself.
pub(super) fn note(note: &str, name: Option<&str>) -> Result<String, Refused> {
    Ok(counterstep_operations::note(note, name)?.to_string())
}

fn refused(error: OperatorError) -> Refused {
    let detail = error.to_string();
    match error {
        OperatorError::Gone => no_such_task(),
        OperatorError::UnknownType => unknown_type(),
        OperatorError::Change(ChangeError::Condemned) => Refused::new(
            ProblemCode::InvalidOutput,
            "the output names objects of an attempt that a sweep has taken: name others, or let the step run again",
        )
        .at("output"),
        OperatorError::Change(error) => error.into(),
        OperatorError::NotParked(TaskStatus::Resolved) => Refused::new(
            ProblemCode::AlreadyResolved,
            "there is nothing left to decide: see the task's audit for who did",
        ),
        OperatorError::NotParked(status) => Refused::new(
            ProblemCode::NotParked,
            format!(
                "the task is {status}; only dead_lettered and compensation_failed wait for a decision: see its /why"
            ),
        ),
        OperatorError::Edit(error) => error.into(),
        OperatorError::NotEditable(_) => Refused::new(ProblemCode::RequestNotChangeable, detail),
        OperatorError::Moved => Refused::new(ProblemCode::NotParked, detail),
        OperatorError::Ended(_) => Refused::new(ProblemCode::AlreadyEnded, detail),
        OperatorError::TooMany { .. } => invalid(detail).at("recovery_attempts"),
        OperatorError::NoSuchStep(_) => Refused::new(ProblemCode::NoSuchStep, detail).at("step"),
        OperatorError::NotSettleable(_) => Refused::new(ProblemCode::NotSettleable, detail),
        OperatorError::NoWayForward => Refused::new(
            ProblemCode::NoWayForward,
            "its undo has begun: leave `direction` out to try the undo again, or resolve the task",
        )
        .at("direction"),
        OperatorError::Output(error) => {
            let at = if error.pointer == "." { "output".to_owned() } else { format!("output.{}", error.pointer) };
            Refused::new(ProblemCode::InvalidOutput, error.message).at(at)
        }
    }
}
