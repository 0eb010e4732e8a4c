//! The span of a request, for traces: where what a task does begins. It holds the method, the route
//! and the status; never an address as it was sent, nor a header but the request's id.

use crate::headers::traceparent;
use actix_web::dev::ServiceRequest;
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpMessage, HttpRequest};
use counterstep_contracts::TaskId;
use counterstep_kernel::Engine;
use counterstep_steps::traces::TRACES;
use tracing::Span;
use tracing::field::Empty;

/// Probes and scrapers request these permanently.
const UNTRACED: &[&str] = &["/healthz", "/readyz", "/metrics"];

/// The span of a request, below the one that the client names. None where no subscriber takes it.
pub(crate) fn of(engine: &Engine, request: &ServiceRequest, request_id: &str) -> Span {
    if !tracing::span_enabled!(target: TRACES, tracing::Level::DEBUG) {
        return Span::none();
    }
    let route = request.match_pattern();
    if route
        .as_deref()
        .is_some_and(|route| UNTRACED.iter().any(|one| route.ends_with(one)))
    {
        return Span::none();
    }
    let method = method(request.method());
    let span = tracing::debug_span!(
        target: TRACES,
        "request",
        otel.name = route.as_deref().map_or_else(|| method.to_owned(), |route| format!("{method} {route}")),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
        request_id,
        engine = %engine.id,
        task = Empty,
        task_type = Empty,
    );
    if let Some(client) = traceparent(request.headers()) {
        engine.traces.set_parent(&span, &client);
    }
    request.extensions_mut().insert(Traced(span.clone()));
    span
}

/// The span of a request, for its handler: the one that it runs in is that of the log.
struct Traced(Span);

/// The span of a request that [`of`] has made; none where there is none.
pub(crate) fn traced(request: &HttpRequest) -> Span {
    let extensions = request.extensions();
    let traced = extensions.get().map(|Traced(span)| span.clone());
    traced.unwrap_or_else(Span::none)
}

/// Notes in the span of a request which task it has submitted.
pub(crate) fn has_submitted(span: &Span, task_type: &str, task: TaskId) {
    span.record("task", tracing::field::display(task));
    span.record("task_type", task_type);
}

/// Notes the answer.
pub(crate) fn answered(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "error");
    }
}

/// A client may send any word as its method.
fn method(given: &Method) -> &'static str {
    match *given {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "_OTHER",
    }
}
