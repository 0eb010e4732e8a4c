//! The words of a submission: who submits, what can be refused, what is answered; and the digest
//! that tells a repetition from another request.

use crate::admission::disable::Refusal;
use crate::digest::hex;
use crate::error::StepError;
use crate::ports::{CommitError, ObjectError, Store, StoreError, SubmissionOutcome};
use crate::task::{RequestError, TaskType};
use crate::webhooks::WebhookUrl;
use counterstep_contracts::http::Accepted;
use counterstep_contracts::{LabelError, Labels, TaskId, Tenant};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt;

/// Who submits what, as far as the caller and the headers say.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Whose task it will be.
    pub tenant: Tenant,
    /// Who submits it, for the audit: `client`, or `client:{subject}`.
    pub actor: String,
    /// The `Idempotency-Key` header.
    pub key: Option<String>,
    /// The `traceparent` header.
    pub traceparent: Option<String>,
    /// Where the client is told when the task comes to rest: the `Counterstep-Webhook` header.
    pub webhook: Option<WebhookUrl>,
    /// The `Counterstep-Label` headers; those that the task type declares come to them.
    pub labels: Labels,
}

/// A request was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// It breaks a rule.
    #[error(transparent)]
    Invalid(#[from] RequestError),
    /// A label that the task type makes of it breaks a rule.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// Another request with the same idempotency key is on its way.
    #[error("a request with this Idempotency-Key is still in progress")]
    InProgress,
    /// The idempotency key was used with another request.
    #[error("this Idempotency-Key was used with another request")]
    KeyMismatch,
    /// A file's bytes broke off, or were refused, on their way in. Carries the source's own words.
    #[error("a file did not arrive whole: {0}")]
    Source(String),
    /// The object store refuses for good.
    #[error(transparent)]
    Objects(ObjectError),
    /// The declaration's own code fails on this request.
    #[error("the declaration fails on this request: {0}")]
    Declaration(StepError),
    /// Its files were swept before it was committed: the stores took too long. A body that arrives
    /// slowly ends earlier, by the limit on its arrival, which is half of what files are kept for.
    #[error("the request's files were not stored in time, and are deleted")]
    TooSlow,
    /// The schedule that submits it has moved on.
    #[error("the schedule has moved on meanwhile")]
    Moved,
    /// Its type takes no submissions.
    #[error("{0}")]
    Disabled(Refusal),
    /// Too many tasks of its type wait.
    #[error("about {0} tasks of this type wait already, and no more may: send it again later")]
    TooManyWaiting(u32),
    /// As many tasks of its key are under way as may be.
    #[error("{0}")]
    TooManyAtOnce(TooManyAtOnce),
    /// Another submission has taken the place: it is decided again.
    #[error("another submission has taken the place meanwhile")]
    PlaceTaken,
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The tasks that keep another one of their key from being accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooManyAtOnce {
    /// Maximum number of tasks under way.
    pub at_once: u32,
    /// Some of them, where they are the tenant's.
    pub tasks: Vec<TaskId>,
}

impl fmt::Display for TooManyAtOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of the tasks of this type or key may be under way at a time, and as many are",
            self.at_once
        )?;
        let tasks: Vec<_> = self.tasks.iter().map(TaskId::to_string).collect();
        match tasks.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", tasks.join(", ")),
        }
    }
}

impl SubmitError {
    /// As metrics count it.
    #[must_use]
    pub const fn outcome(&self) -> SubmissionOutcome {
        match self {
            Self::Invalid(_) | Self::Label(_) | Self::Source(_) | Self::TooManyAtOnce(_) => {
                SubmissionOutcome::Refused
            }
            Self::TooManyWaiting(_) => SubmissionOutcome::TooManyWaiting,
            Self::InProgress | Self::KeyMismatch | Self::Moved | Self::PlaceTaken => {
                SubmissionOutcome::Conflict
            }
            Self::Disabled(_) => SubmissionOutcome::Disabled,
            Self::Objects(_) | Self::Declaration(_) | Self::TooSlow | Self::Store(_) => {
                SubmissionOutcome::Failed
            }
        }
    }
}

impl SubmitError {
    /// Whether the request is in order, and no further task is accepted now.
    pub(super) const fn is_not_accepted(&self) -> bool {
        matches!(
            self,
            Self::Disabled(_) | Self::TooManyWaiting(_) | Self::TooManyAtOnce(_)
        )
    }

    /// As a log shows it: where payloads are encrypted, without what it quotes of a request.
    #[must_use]
    pub fn in_log(&self, store: &Store) -> String {
        match self {
            Self::Invalid(error) if store.payload_codec().is_some() => {
                format!("the request does not fit its type, at `{}`", error.pointer)
            }
            _ => self.to_string(),
        }
    }
}

/// A request that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// The answer's body; for a repetition the first one's.
    pub answer: Accepted,
    /// Whether it repeats an earlier one.
    pub replayed: bool,
}

impl Submitted {
    /// As metrics count it.
    #[must_use]
    pub const fn outcome(&self) -> SubmissionOutcome {
        if self.replayed {
            SubmissionOutcome::Repeated
        } else {
            SubmissionOutcome::Accepted
        }
    }
}

pub(super) fn both(field: &str) -> SubmitError {
    invalid(
        field,
        "the form has this field both as a text and as a file",
    )
    .into()
}

pub(super) fn replayed(answer: &Value) -> Result<Submitted, SubmitError> {
    let answer = serde_json::from_value(answer.clone()).map_err(|error| {
        StoreError::Corrupt(format!("the answer of an idempotency row: {error}"))
    })?;
    Ok(Submitted {
        answer,
        replayed: true,
    })
}

/// Digest of what the client sent, without the places of files that are new each time, and without its labels: those
/// of the first submission stay.
// Not of the request as its type writes it: that may differ each time, as the order of a `HashSet` does, and with each
// release of the type.
pub(super) fn fingerprint(task_type: &TaskType, sent: Value) -> String {
    fn without_places(value: &mut Value) {
        match value {
            Value::Object(map) => {
                if map.contains_key("sha256") && map.contains_key("field") {
                    map.remove("key");
                    map.remove("bucket");
                }
                map.values_mut().for_each(without_places);
            }
            Value::Array(list) => list.iter_mut().for_each(without_places),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut sent = sent;
    without_places(&mut sent);
    // In a program that keeps the order of objects they would differ by it.
    sent.sort_all_objects();
    let text = format!("{}:{}", task_type.decl.name, sent);
    hex(&Sha256::digest(text.as_bytes()))
}

pub(super) fn invalid(pointer: &str, message: &str) -> RequestError {
    RequestError::new(pointer, message)
}

pub(super) fn from_objects(error: ObjectError) -> SubmitError {
    match error {
        ObjectError::Source(text) => SubmitError::Source(text),
        ObjectError::Unavailable(_) | ObjectError::NotFound(_) | ObjectError::Refused(_) => {
            SubmitError::Objects(error)
        }
    }
}

pub(super) fn from_commit(error: CommitError) -> SubmitError {
    match error {
        CommitError::KeyTaken => SubmitError::InProgress,
        CommitError::Condemned => SubmitError::TooSlow,
        CommitError::Moved => SubmitError::Moved,
        CommitError::PlaceTaken => SubmitError::PlaceTaken,
        CommitError::Store(error) => SubmitError::Store(error),
        CommitError::Stale | CommitError::Fenced { .. } => {
            SubmitError::Store(StoreError::Corrupt("a new task's id is taken".to_owned()))
        }
        // No step of a submission writes any.
        CommitError::Sql(refused) => SubmitError::Store(StoreError::Corrupt(refused.to_string())),
    }
}
