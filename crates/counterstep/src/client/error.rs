//! Why what was asked was not done, the same in process and over HTTP. Must not know what was asked.

use counterstep_contracts::{Problem, ProblemCode, TaskStatus};
use std::fmt;
use std::time::Duration;

/// What was asked was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The request is refused.
    #[error("the request is refused: {0}")]
    Refused(Refusal),
    /// The task came to rest without a response.
    #[error("the task is {status}{}", failure.as_ref().map_or_else(String::new, |why| format!(": {why}")))]
    NotCompleted {
        /// Where it rests.
        status: TaskStatus,
        /// Why, where it says so.
        failure: Option<String>,
    },
    /// A statement was not executed in the caller's own transaction, or the transaction is not
    /// committed.
    #[error("{0}")]
    Transaction(String),
    /// A request cannot be written as JSON, or a response is not of the declared type.
    #[error(transparent)]
    Type(#[from] serde_json::Error),
    /// The database, or the API, does not answer, or asks to come again later. Whether a submission
    /// took effect may be unknown: the same request with the same key tells.
    #[error("{0}")]
    Unavailable(String),
}

/// Why a request is refused: what the API's problem document says, in process too.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The stable code. `None`: what is refused never came before the API or the engine.
    pub code: Option<ProblemCode>,
    /// What was wrong, what was expected, what to do.
    pub detail: String,
    /// JSON pointer, field name or parameter that is at fault.
    pub pointer: Option<String>,
    /// When to come again, where that helps.
    pub retry_after: Option<Duration>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(code) = self.code {
            write!(f, "{} ({}): ", code.title(), code.as_str())?;
        }
        f.write_str(&self.detail)
    }
}

impl ClientError {
    /// What a problem document says, whichever way it came.
    pub(super) fn of(problem: Problem, retry_after: Option<Duration>) -> Self {
        // The same request may be accepted later.
        if matches!(problem.status, 408 | 429 | 500..) || problem.code == ProblemCode::InProgress {
            return Self::Unavailable(problem.to_string());
        }
        Self::Refused(Refusal {
            code: Some(problem.code),
            detail: problem.detail,
            pointer: problem.pointer,
            retry_after,
        })
    }

    /// Refused without a problem document.
    pub(super) fn refused(detail: impl Into<String>) -> Self {
        Self::Refused(Refusal {
            code: None,
            detail: detail.into(),
            pointer: None,
            retry_after: None,
        })
    }
}
