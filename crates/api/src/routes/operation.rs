//! The one handler of all declared operations: reads what is asked, lets it run, and writes the answer. Must not know an
//! operation.

use super::address::segment;
use super::answer::Answer;
use crate::app_state::Api;
use crate::body::Arriving;
use crate::caller::Authenticated;
use crate::headers::{BodyKind, body_kind, content_length};
use crate::mount_path::address;
use crate::query::DeclaredQuery;
use crate::request_json;
use actix_web::http::StatusCode;
use actix_web::http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION};
use actix_web::{HttpRequest, HttpResponse, web};
use counterstep_contracts::ProblemCode;
use counterstep_operations::{Cx, Refused, Running, read_input};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// In this order: a bad address is refused before a parameter that is not known, and a name of nothing before a body is
/// read.
pub(super) async fn answer(
    it: &'static Running,
    query: &DeclaredQuery,
    api: web::Data<Api>,
    Authenticated(caller): Authenticated,
    request: HttpRequest,
    payload: web::Payload,
) -> Answer {
    let about = it.declared.about;
    let target = it.on(&segments(&request, about.path))?;
    let asked = query.read(&request)?;
    let cx = Cx {
        engine: api.engine.clone(),
        caller,
        process: api.clone().into_inner(),
        mount_path: address(&request, ""),
    };
    target.find(&cx)?;
    let input = match it.declared.body() {
        Some(_) => json_body(&api, &request, payload).await?,
        None => asked,
    };
    let changes = about.changes_with(&input);
    let running = target.run(cx, input);
    let answer = if changes {
        api.finish(about.id, running).await?
    } else {
        running.await?
    };
    let status = StatusCode::from_u16(answer.status);
    let mut response = HttpResponse::build(status.unwrap_or(StatusCode::OK));
    if about.no_store {
        response.insert_header((CACHE_CONTROL, "no-store"));
    }
    if let Some(location) = answer.location {
        response.insert_header((LOCATION, address(&request, &location)));
    }
    Ok(match answer.body {
        Some(body) => response
            .insert_header((CONTENT_TYPE, "application/json"))
            .body(body),
        None => response.finish(),
    })
}

/// The segments of the path that vary, in its order.
fn segments<'a>(request: &'a HttpRequest, path: &str) -> Vec<&'a str> {
    let names = path
        .split('/')
        .filter_map(|it| it.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| segment(request, name)).collect()
}

/// The body of a request, which has to be JSON.
async fn json_body(
    api: &Api,
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<Value, Refused> {
    if !matches!(body_kind(request)?, BodyKind::Json) {
        let detail = "send `Content-Type: application/json`";
        return Err(Refused::new(ProblemCode::UnsupportedMediaType, detail).at("Content-Type"));
    }
    let bytes = Arriving::new(api, payload)
        .whole(content_length(request), api.settings.max_json_bytes)
        .await?;
    request_json::parse(&bytes)
}

/// The body of a request as its declared type, with no field that the type does not know.
pub(super) async fn body<T: Serialize + DeserializeOwned>(
    api: &Api,
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<T, Refused> {
    read_input(json_body(api, request, payload).await?)
}
