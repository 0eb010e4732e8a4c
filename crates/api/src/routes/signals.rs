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

/// A name that stands in every audit entry is kept short.
const LONGEST_ACTOR: usize = 100;

pub(super) async fn post(
    api: web::Data<Api>,
    caller: Caller,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let id = task_id(&request)?;
    let actor = actor(&Params::of(&request, &["actor"])?)?;
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

/// Who is to stand in the audit: what the sender says of itself.
fn actor(params: &Params) -> Result<String, Refused> {
    let Some(name) = params.get("actor") else {
        return Ok("client".to_owned());
    };
    if name.trim().is_empty() || name.len() > LONGEST_ACTOR || name.chars().any(char::is_control) {
        let detail = "`actor` is who sends the signal: 1 to 100 bytes without control characters";
        return Err(Refused::new(ProblemCode::MalformedParameter, detail).at("actor"));
    }
    Ok(format!("client:{name}"))
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
