//! Reads a request, the body of a signal or a supplied output as its declared type. Must not know
//! which of them it reads.

mod missing_field;

use missing_field::{ReadError, Whole};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Checks a request and gives it its canonical form.
pub type ReadRequestFn = fn(Value) -> Result<Value, RequestError>;

/// Checks an output and gives it its canonical form.
pub type ReadOutputFn = fn(Value) -> Result<Value, RequestError>;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at `{pointer}`")]
pub struct RequestError {
    /// JSON path of the culprit; `.` for the whole.
    pub pointer: String,
    /// What was wrong and what was expected.
    pub message: String,
    /// The field of the whole that is missing, where that is what was wrong.
    pub missing: Option<&'static str>,
}

impl RequestError {
    /// Of a value that is there and wrong.
    #[must_use]
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            message: message.into(),
            missing: None,
        }
    }
}

/// Checks that a value is a `T` (a request, or the body of a signal) with no field that `T` does
/// not know, and gives it the form in which it is stored.
///
/// # Errors
/// [`RequestError`] names the first field at fault.
pub fn read_request<T: Serialize + DeserializeOwned>(value: Value) -> Result<Value, RequestError> {
    let mut unknown = None;
    let mut track = serde_path_to_error::Track::new();
    let deserializer = serde_path_to_error::Deserializer::new(Whole(value), &mut track);
    let parsed: Result<T, _> = serde_ignored::deserialize(deserializer, |path| {
        unknown.get_or_insert_with(|| path.to_string());
    });
    let request = parsed.map_err(|error| RequestError {
        pointer: track.path().to_string(),
        message: error.to_string(),
        missing: match error {
            ReadError::Missing(field) => Some(field),
            ReadError::Other(_) => None,
        },
    })?;
    if let Some(pointer) = unknown {
        let message = "unknown field: the declared type has no field of this name";
        return Err(RequestError::new(pointer, message));
    }
    serde_json::to_value(&request).map_err(|error| RequestError::new(".", error.to_string()))
}
