//! What every answer has, whoever made it: `nosniff`, and a problem document where the framework, or a panic, left
//! something else. Must not change an answer that a route gave.
//!
//! It cannot reach what actix-http answers before there is a request: a head that cannot be parsed (400), is too large
//! (431) or never ends (408) gets a bare status and a closed connection.

use crate::problem::{PROBLEM_JSON, Refused};
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use actix_web::middleware::Next;
use actix_web::{Error, ResponseError};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;

/// Wraps the whole application.
pub(crate) async fn last_word(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    // A panic would close the connection without a word. Nothing that it left half-done is used again: the request's
    // own state is dropped, and what is shared is behind locks that say when they are poisoned.
    let answered = AssertUnwindSafe(next.call(request)).catch_unwind().await;
    let mut response = match answered {
        Ok(Ok(response)) => response.map_into_boxed_body(),
        Ok(Err(error)) if error.as_error::<Refused>().is_some() => return Err(error),
        Ok(Err(error)) => return Err(Refused::of_status(error.as_response_error().status_code()).into()),
        Err(_) => return Err(Refused::internal("answering", &"a handler panicked").into()),
    };
    let status = response.status();
    let is_problem = response.headers().get(CONTENT_TYPE).is_some_and(|value| value == PROBLEM_JSON);
    if (status.is_client_error() || status.is_server_error()) && !is_problem {
        let (request, _) = response.into_parts();
        response = ServiceResponse::new(request, Refused::of_status(status).error_response());
    }
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}
