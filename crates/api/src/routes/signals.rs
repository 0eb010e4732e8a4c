//! `POST /api/tasks/{id}/signals/{name}`: a client answers a step that waits. The kernel decides;
//! here its answers get their codes.

use super::address::{load, segment, task_id};
use super::answer::Answer;
use crate::app_state::Api;
use crate::body::Arriving;
use crate::caller::Authenticated;
use crate::headers::{BodyKind, body_kind, content_length};
use crate::query::Params;
use crate::request_json;
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_kernel::client;
use counterstep_operations::Refused;

pub(super) async fn post(
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
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
        return Err(Refused::new(ProblemCode::UnsupportedMediaType, detail)
            .at("Content-Type")
            .into());
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
