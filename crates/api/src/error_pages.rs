//! What every answer has, whatever made it: `nosniff`, the request's id, and a problem document
//! where the framework, or a panic, left something else. Must not change an answer that a route
//! gave.
//!
//! It cannot reach what actix-http answers before there is a request: a head that cannot be parsed
//! (400), is too large (431) or never ends (408) gets a bare status and a closed connection.

use crate::app_state::Api;
use crate::beside::is_as_it_is;
use crate::problem::{PROBLEM_JSON, Refused};
use crate::request_id::{self, X_REQUEST_ID};
use crate::request_span;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use actix_web::middleware::Next;
use actix_web::{Error, HttpResponse, ResponseError, web};
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
) -> Result<ServiceResponse<BoxBody>, Refused> {
    // A panic would close the connection without a word. Nothing that it left half-done is used
    // again: the request's own state is dropped, and what is shared is behind locks that say when
    // they are poisoned.
    let answered = AssertUnwindSafe(next.call(request)).catch_unwind().await;
    let response = match answered {
        Ok(Ok(response)) => response.map_into_boxed_body(),
        Ok(Err(error)) => {
            let refused = error.as_error::<Refused>().cloned();
            return Err(refused
                .unwrap_or_else(|| Refused::of_status(error.as_response_error().status_code())));
        }
        Err(_) => return Err(Refused::internal("answering", &"a handler panicked")),
    };
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
            Refused::of_status(status).error_response(),
        ));
    }
    Ok(response)
}
