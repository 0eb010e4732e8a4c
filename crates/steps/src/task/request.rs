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
#[error("{message}{}", at(.pointer))]
pub struct RequestError {
    /// JSON path of the culprit; `.` for the whole; empty where it is not known.
    pub pointer: String,
    /// What was wrong and what was expected.
    pub message: String,
    /// The field of the whole that is missing, where that is what was wrong.
    pub missing: Option<&'static str>,
}

fn at(pointer: &str) -> String {
    match pointer {
        "" => String::new(),
        pointer => format!(" at `{pointer}`"),
    }
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
    let (mut unknown, mut fields) = (None, None);
    let whole = Whole {
        value,
        fields: &mut fields,
    };
    let mut track = serde_path_to_error::Track::new();
    let deserializer = serde_path_to_error::Deserializer::new(whole, &mut track);
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
        let mut message = "unknown field: the declared type has no field of this name".to_owned();
        // Of a field within a field they would be those of another type.
        if let Some(fields) = fields.filter(|_| !pointer.contains(['.', '['])) {
            message += &match fields {
                [] => "; it has none".to_owned(),
                fields => format!("; it has {}", fields.join(", ")),
            };
        }
        return Err(RequestError::new(pointer, message));
    }
    serde_json::to_value(&request).map_err(|error| RequestError::new(".", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Serialize, Deserialize)]
    struct Order {
        item: String,
        to: Option<Address>,
    }

    #[derive(Debug, Serialize, Deserialize)]
    struct Address {
        street: String,
    }

    #[derive(Debug, Serialize, Deserialize)]
    struct Nothing {}

    #[test]
    fn an_unknown_field_is_refused_with_those_of_the_whole() {
        let refused = read_request::<Order>(json!({"item": "a", "itm": 1})).expect_err("refused");
        assert_eq!(refused.pointer, "itm");
        assert!(
            refused.message.ends_with("; it has item, to"),
            "{refused:?}"
        );
        let inner = json!({"item": "a", "to": {"street": "b", "town": "c"}});
        let refused = read_request::<Order>(inner).expect_err("refused");
        assert!(!refused.message.contains("it has"), "{refused:?}");
        let refused = read_request::<Nothing>(json!({"a": 1})).expect_err("refused");
        assert!(refused.message.ends_with("; it has none"), "{refused:?}");
    }
}
