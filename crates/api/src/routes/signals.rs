//! `POST /api/tasks/{id}/signals/{name}`: a client answers a step that waits. The kernel decides;
//! here its answers get their codes.

use super::address::{load, segment, task_id};
use super::answer::Answer;
use crate::app_state::Api;
use crate::body::Arriving;
use crate::caller::Caller;
use crate::headers::{BodyKind, body_kind, content_length};
use crate::problem::{Refused, no_such_task};
use crate::query::Params;
use crate::request_json;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_kernel::client;
use counterstep_kernel::client::SignalRefusal;

pub(super) async fn post(
    api: web::Data<Api>,
    caller: Caller,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let id = task_id(&request)?;
    Params::of(&request, &[])?;
    let actor = caller.actor("client");
    let name = segment(&request, "name").to_owned();
    load(&api, &caller, id).await?;
    if body_kind(&request)? != BodyKind::Json {
        let detail = "send the signal's body as `Content-Type: application/json`";
        return Err(Refused::new(ProblemCode::UnsupportedMediaType, detail).at("Content-Type"));
    }
    let body = Arriving::new(&api, payload)
        .whole(content_length(&request), api.settings.max_json_bytes)
        .await?;
    let body = request_json::parse(&body)?;
    let engine = api.engine.clone();
    let sending = async move {
        client::signal(&engine, id, &name, body, &actor)
            .await
            .map_err(Refused::from)
    };
    let answer = api.finish("taking a signal", sending).await?;
    Ok(HttpResponse::Accepted().json(answer))
}

impl From<SignalRefusal> for Refused {
    fn from(refusal: SignalRefusal) -> Self {
        let said = refusal.to_string();
        match refusal {
            SignalRefusal::Gone => no_such_task(),
            SignalRefusal::Change(error) => error.into(),
            SignalRefusal::UnknownType => {
                let detail = "this server does not know the task's type: ask one that runs the program it was submitted to";
                Refused::new(ProblemCode::Unavailable, detail).retry_after(10)
            }
            SignalRefusal::NoSuchSignal { known } if known.is_empty() => Refused::new(
                ProblemCode::NoSuchSignal,
                "tasks of its type wait for no signal",
            )
            .at("name"),
            SignalRefusal::NoSuchSignal { known } => {
                let detail = format!(
                    "tasks of its type wait for {}: a signal has the name of its step",
                    known.join(", ")
                );
                Refused::new(ProblemCode::NoSuchSignal, detail).at("name")
            }
            SignalRefusal::Invalid(error) => {
                Refused::new(ProblemCode::InvalidRequest, error.message).at(error.pointer)
            }
            SignalRefusal::Taken => {
                let detail = "a signal is accepted once, and the same body again gets the same answer: look at the task";
                Refused::new(ProblemCode::SignalTaken, detail)
            }
            SignalRefusal::TooLate { .. } => Refused::new(ProblemCode::SignalTooLate, said),
        }
    }
}
