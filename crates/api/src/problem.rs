//! Refusals as HTTP responses. Owns the status, the headers and the media type of a problem document; which error is which
//! code, `counterstep_operations` knows.

use actix_web::http::StatusCode;
use actix_web::http::header::{
    ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::{HttpResponse, ResponseError};
use counterstep_contracts::{Problem, ProblemCode};
use counterstep_kernel::ports::SubmissionOutcome;
use counterstep_operations::Refused;

/// The media type of problem documents.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// A refusal as a response. A type of its own, since neither the refusal nor the trait of responses is of this crate.
#[derive(Debug, Clone)]
pub(crate) struct HttpRefused {
    refused: Refused,
    allow: Option<String>,
}

impl HttpRefused {
    /// An address that takes other methods.
    pub(crate) fn method(allow: String) -> Self {
        let detail = format!("use one of: {allow}");
        Self {
            refused: Refused::new(ProblemCode::MethodNotAllowed, detail),
            allow: Some(allow),
        }
    }

    /// For an answer that the framework made by itself.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        let code = match status.as_u16() {
            404 => ProblemCode::NoSuchRoute,
            405 => ProblemCode::MethodNotAllowed,
            408 => ProblemCode::SlowBody,
            413 => ProblemCode::TooLarge,
            414 => ProblemCode::AddressTooLong,
            415 => ProblemCode::UnsupportedMediaType,
            431 => ProblemCode::HeaderTooLarge,
            503 => ProblemCode::Unavailable,
            507 => ProblemCode::StorageFull,
            400..=499 => ProblemCode::MalformedParameter,
            _ => ProblemCode::Internal,
        };
        Refused::new(code, code.title()).into()
    }
}

impl<E> From<E> for HttpRefused
where
    Refused: From<E>,
{
    fn from(error: E) -> Self {
        Self {
            refused: error.into(),
            allow: None,
        }
    }
}

impl std::fmt::Display for HttpRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.refused.fmt(f)
    }
}

impl ResponseError for HttpRefused {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.refused.problem().status)
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let mut answer = HttpResponse::build(self.status_code());
        answer
            .insert_header((CONTENT_TYPE, PROBLEM_JSON))
            .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"));
        if self.refused.problem().code == ProblemCode::Unauthenticated {
            answer.insert_header((WWW_AUTHENTICATE, "Bearer realm=\"counterstep\""));
        }
        if let Some(seconds) = self.refused.seconds() {
            answer.insert_header((RETRY_AFTER, seconds.to_string()));
        }
        if let Some(allow) = &self.allow {
            answer.insert_header((ALLOW, allow.as_str()));
        }
        answer.body(serde_json::to_vec(self.refused.problem()).unwrap_or_default())
    }
}

/// As metrics count a submission that is refused with this.
pub(crate) fn outcome_of(problem: &Problem) -> SubmissionOutcome {
    match problem.code {
        ProblemCode::InProgress | ProblemCode::IdempotencyMismatch => SubmissionOutcome::Conflict,
        ProblemCode::TypeDisabled => SubmissionOutcome::Disabled,
        ProblemCode::TooManyWaiting => SubmissionOutcome::TooManyWaiting,
        _ if problem.status >= 500 => SubmissionOutcome::Failed,
        _ => SubmissionOutcome::Refused,
    }
}

/// A body that cannot be read.
pub(crate) fn malformed(detail: impl Into<String>) -> Refused {
    Refused::new(ProblemCode::MalformedBody, detail)
}

/// What webhooks lack here. A program without TLS makes its secrets itself; it sends to networks that are allowed alone.
const NO_WEBHOOKS: &str = if cfg!(feature = "servers") {
    "the operator has set no secret for webhooks: follow the task's events, or ask with ?wait="
} else {
    "this program was built without TLS (feature `servers`) and `webhook_allow` names no network: follow the task's \
     events, or ask with ?wait="
};

/// This server sends no webhooks.
pub(crate) fn webhooks_off() -> Refused {
    Refused::new(ProblemCode::WebhooksOff, NO_WEBHOOKS)
}

/// A body over a limit.
pub(crate) fn too_large(detail: impl Into<String>) -> Refused {
    Refused::new(ProblemCode::TooLarge, detail)
}

/// A body that arrives too slowly.
pub(crate) fn slow(detail: impl Into<String>) -> Refused {
    Refused::new(ProblemCode::SlowBody, detail)
}
