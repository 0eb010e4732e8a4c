//! Where payloads stand, and how an encrypted one looks.

use super::escape::ESCAPED;
use crate::ports::{ENCRYPTED, PayloadError, StoreError};
use counterstep_contracts::{StepNo, TaskId};
use serde_json::{Value, json};
use std::fmt;

/// The only field of a JSON value that was encrypted.
const ENVELOPE: &str = "counterstep:encrypted";

/// Where a payload of a task stands. It is bound to its place: moved to another, or to another task,
/// it cannot be decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Request,
    Response,
    Output(StepNo),
    Signal(StepNo),
    /// The text of an error.
    Error,
    /// What an audit entry says beyond the states.
    Details,
    /// Lines that steps logged.
    Log,
}

impl Place {
    pub(super) fn of(self, task: TaskId) -> String {
        format!("task {task}: {self}")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => f.write_str("request"),
            Self::Response => f.write_str("response"),
            Self::Output(no) => write!(f, "output {no}"),
            Self::Signal(no) => write!(f, "signal {no}"),
            Self::Error => f.write_str("error"),
            Self::Details => f.write_str("details"),
            Self::Log => f.write_str("log"),
        }
    }
}

/// Whether a text was encrypted, or looks so and was not escaped yet.
#[must_use]
pub fn is_encrypted(text: &str) -> bool {
    text.starts_with(ENCRYPTED) || text.starts_with(ESCAPED)
}

/// What was encrypted, where a value was.
pub(super) fn encrypted_value(value: &Value) -> Option<&str> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    fields
        .get(ENVELOPE)?
        .as_str()
        .filter(|text| is_encrypted(text))
}

/// Whether a value was encrypted with a key, or is the `Null` that stays as it is. One that was only escaped was not.
pub(crate) fn is_ciphertext(value: &Value) -> bool {
    value.is_null() || encrypted_value(value).is_some_and(|text| text.starts_with(ENCRYPTED))
}

pub(super) fn envelope(encrypted: String) -> Value {
    json!({ ENVELOPE: encrypted })
}

impl From<PayloadError> for StoreError {
    fn from(error: PayloadError) -> Self {
        match error {
            PayloadError::Missing(why) | PayloadError::Erased(why) => Self::Unsupported(why),
            PayloadError::Damaged(_) => Self::Corrupt(error.to_string()),
        }
    }
}

/// Whether a text in a JSON document looks as if it was encrypted.
pub(super) fn has_encrypted(json: &str) -> bool {
    json.match_indices('"')
        .any(|(quote, _)| is_encrypted(&json[quote + 1..]))
}
