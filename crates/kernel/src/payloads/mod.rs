//! Payloads at rest: what clients, steps and operators hand in is sealed before a store is given it,
//! and opened when it comes back. Payloads are requests, outputs, responses, signals, the texts of
//! errors, the details of audit entries, and the bodies of schedules. Must not choose a key.

mod open;
mod seal;
mod store;

pub use open::{open_audit, open_record};
pub(crate) use seal::Seal;
pub use seal::seal_row;
pub use store::PayloadStore;

use crate::error::StepError;
use crate::ports::{PayloadError, SEALED, Store, StoreError};
use counterstep_contracts::{StepNo, TaskId};
use serde_json::{Value, json};
use std::fmt;

/// The only field of a JSON value that was sealed.
const ENVELOPE: &str = "counterstep:sealed";

/// Where a payload of a task stands. It is bound to its place: moved to another, or to another task,
/// it cannot be opened.
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
}

impl Place {
    fn of(self, task: TaskId) -> String {
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
        }
    }
}

/// Whether a text was sealed.
#[must_use]
pub fn is_sealed(text: &str) -> bool {
    text.starts_with(SEALED)
}

/// What was sealed, where a value was.
fn sealed_value(value: &Value) -> Option<&str> {
    let fields = value.as_object().filter(|fields| fields.len() == 1)?;
    fields
        .get(ENVELOPE)?
        .as_str()
        .filter(|text| is_sealed(text))
}

fn envelope(sealed: String) -> Value {
    json!({ ENVELOPE: sealed })
}

/// A step's error as a log shows it: where payloads are sealed, its class alone.
pub(crate) fn in_log(store: &dyn Store, error: &StepError) -> String {
    if store.payload_codec().is_some() {
        error.class.as_str().to_owned()
    } else {
        error.to_string()
    }
}

impl From<PayloadError> for StoreError {
    fn from(error: PayloadError) -> Self {
        match error {
            PayloadError::NoKey(why) => Self::Unsupported(why),
            PayloadError::Damaged(_) => Self::Corrupt(error.to_string()),
            PayloadError::Unavailable(_) => Self::Unavailable(error.to_string()),
        }
    }
}
