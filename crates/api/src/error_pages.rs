//! What every answer has, whatever made it: `nosniff`, the request's id, and a problem document
//! where the framework, or a panic, left something else. Must not change an answer that a route
//! gave.
//!
//! It cannot reach what actix-http answers before there is a request: a head that cannot be parsed
//! (400), has more than 128 KiB (431) or never ends (408) gets a bare status and a closed connection.

use crate::app_state::Api;
use crate::extra_routes::is_as_it_is;
use crate::problem::{HttpRefused, PROBLEM_JSON};
use crate::request_id::{self, X_REQUEST_ID};
use crate::request_span;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use actix_web::http::{ConnectionType, Version};
use actix_web::middleware::Next;
use actix_web::{Error, HttpResponse, ResponseError, web};
use counterstep_contracts::ProblemCode;
use counterstep_operations::Refused;
use counterstep_steps::task::trace_id;
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use tracing::Instrument;

/// Wraps the whole application.
pub(crate) async fn error_pages(
    api: web::Data<Api>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let id = request_id::of(request.headers(), &*api.engine.ports.random);
    let request_id = id.to_str().unwrap_or_default();
    let traced = request_span::of(&api.engine, &request, request_id);
    let traceparent = api.engine.traces.traceparent(&traced);
    // At the level of errors: a log that leaves out lesser things still has the id in each line. Within
    // the span for traces: what outlives the request takes the inner one along.
    let span = tracing::error_span!(
        "request",
        request_id,
        trace_id = traceparent.as_deref().and_then(trace_id),
    );
    let answered = answer(request, next).instrument(span);
    let answered = answered.instrument(traced.clone()).await;
    let complete = |response: &mut HttpResponse<BoxBody>| {
        response
            .headers_mut()
            .insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response.headers_mut().insert(X_REQUEST_ID, id.clone());
    };
    match answered {
        Ok(mut response) => {
            request_span::answered(&traced, response.status());
            complete(response.response_mut());
            Ok(response)
        }
        Err(refused) => {
            let mut response = refused.error_response();
            request_span::answered(&traced, response.status());
            complete(&mut response);
            Err(InternalError::from_response(refused, response).into())
        }
    }
}

async fn answer(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, HttpRefused> {
    if let Some(refused) = too_long(&request) {
        return Err(refused.into());
    }
    let is_http_1_0 = request.version() < Version::HTTP_11;
    // A panic would close the connection without a word. Nothing that it left half-done is used
    // again: the request's own state is dropped, and what is shared is behind locks that say when
    // they are poisoned.
    let answered = AssertUnwindSafe(next.call(request)).catch_unwind().await;
    let mut response = match answered {
        Ok(Ok(response)) => response.map_into_boxed_body(),
        Ok(Err(error)) => {
            let refused = error.as_error::<HttpRefused>().cloned();
            return Err(refused.unwrap_or_else(|| {
                HttpRefused::of_status(error.as_response_error().status_code())
            }));
        }
        Err(_) => return Err(Refused::internal("answering", &"a handler panicked").into()),
    };
    // Such a client knows no chunks: what has no length ends with the connection.
    if is_http_1_0 && response.response().body().size() == BodySize::Stream {
        let head = response.response_mut().head_mut();
        head.no_chunking(true);
        head.set_connection_type(ConnectionType::Close);
    }
    let status = response.status();
    let is_problem = response
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|value| value == PROBLEM_JSON);
    let is_error = status.is_client_error() || status.is_server_error();
    if is_error && !is_problem && !is_as_it_is(&response) {
        let (request, _) = response.into_parts();
        return Ok(ServiceResponse::new(
            request,
            HttpRefused::of_status(status).error_response(),
        ));
    }
    Ok(response)
}

/// Bytes of the address of a request, and of all its headers, as common servers and proxies have it.
const LONGEST: usize = 16 * 1024;

fn too_long(request: &ServiceRequest) -> Option<Refused> {
    let address = request
        .uri()
        .path_and_query()
        .map_or(0, |it| it.as_str().len());
    if address >= LONGEST {
        let detail =
            format!("the address of a request has less than {LONGEST} bytes: send more in a body");
        return Some(Refused::new(ProblemCode::AddressTooLong, detail));
    }
    let headers = request.headers().iter();
    let bytes: usize = headers
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    let detail = format!("the headers of a request have less than {LONGEST} bytes together");
    (bytes >= LONGEST).then(|| Refused::new(ProblemCode::HeaderTooLarge, detail))
}
