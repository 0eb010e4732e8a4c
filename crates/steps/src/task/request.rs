//! Checks what comes from outside against the declared type.

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
}

/// Checks that a value is a `T` (a request, or the body of a signal) with no field that `T` does
/// not know, and gives it the form in which it is stored.
///
/// # Errors
/// [`RequestError`] names the first field at fault.
pub fn read_request<T: Serialize + DeserializeOwned>(value: Value) -> Result<Value, RequestError> {
    let mut unknown = None;
    let mut track = serde_path_to_error::Track::new();
    let deserializer = serde_path_to_error::Deserializer::new(value, &mut track);
    let parsed: Result<T, _> = serde_ignored::deserialize(deserializer, |path| {
        unknown.get_or_insert_with(|| path.to_string());
    });
    let request = parsed.map_err(|error| RequestError {
        pointer: track.path().to_string(),
        message: error.to_string(),
    })?;
    if let Some(pointer) = unknown {
        let message = "unknown field: the declared type has no field of this name".to_owned();
        return Err(RequestError { pointer, message });
    }
    serde_json::to_value(&request).map_err(|error| RequestError {
        pointer: ".".to_owned(),
        message: error.to_string(),
    })
}
