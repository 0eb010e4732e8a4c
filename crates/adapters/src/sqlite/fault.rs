//! What goes wrong inside a store call, and what the ports call it; and the way of values between rows and words. Must
//! not decide whether to try again.

use counterstep_kernel::ports::{CommitError, StoreError};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// Why a closure on a connection gave up. Whatever it wrote rolls back.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite said no.
    Sql(DieselError),
    /// A row cannot be understood, or a change does not fit the rows.
    Corrupt(String),
    /// A guard or a claim did not hold.
    Refused(CommitError),
    /// No connection, or no thread.
    Unavailable(String),
    /// The transaction was complete and its COMMIT failed with something other than "busy".
    Unknown(String),
}

impl From<DieselError> for Fault {
    fn from(error: DieselError) -> Self {
        Self::Sql(error)
    }
}

impl From<CommitError> for Fault {
    fn from(error: CommitError) -> Self {
        Self::Refused(error)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Sql(error) => from_sql(&error),
            Fault::Corrupt(text) => Self::Corrupt(text),
            Fault::Refused(CommitError::Store(error)) => error,
            Fault::Refused(refusal) => Self::Corrupt(refusal.to_string()),
            Fault::Unavailable(text) => Self::Unavailable(text),
            Fault::Unknown(text) => Self::Unknown(text),
        }
    }
}

impl From<Fault> for CommitError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(refusal) => refusal,
            other => Self::Store(other.into()),
        }
    }
}

fn from_sql(error: &DieselError) -> StoreError {
    match error {
        // Rows that contradict each other: what the constraints are there to keep out.
        DieselError::DatabaseError(
            DatabaseErrorKind::UniqueViolation
            | DatabaseErrorKind::ForeignKeyViolation
            | DatabaseErrorKind::NotNullViolation
            | DatabaseErrorKind::CheckViolation,
            text,
        ) => StoreError::Corrupt(text.message().to_owned()),
        DieselError::DeserializationError(_) | DieselError::SerializationError(_) | DieselError::NotFound => {
            StoreError::Corrupt(error.to_string())
        }
        // Locked, busy, full, unreadable: the transaction rolled back and may be tried again.
        other => StoreError::Unavailable(other.to_string()),
    }
}

/// Whether SQLite waited for a lock in vain. Diesel hands on the message only, not the code.
pub(crate) fn is_busy(error: &DieselError) -> bool {
    matches!(error, DieselError::DatabaseError(_, text)
        if text.message().contains("is locked") || text.message().contains("busy"))
}

/// An enum, or an id, from its column.
pub(crate) fn parse<T: FromStr<Err: Display>>(column: &str, text: &str) -> Result<T, Fault> {
    text.parse().map_err(|error| Fault::Corrupt(format!("{column}: {error}")))
}

/// As [`parse`], of a column that may be empty.
pub(crate) fn parse_some<T: FromStr<Err: Display>>(column: &str, text: Option<&str>) -> Result<Option<T>, Fault> {
    text.map(|text| parse(column, text)).transpose()
}

/// A count from its column.
pub(crate) fn count(column: &str, value: i64) -> Result<u32, Fault> {
    u32::try_from(value).map_err(|error| Fault::Corrupt(format!("{column}: {error}")))
}

/// A value from its JSON column.
pub(crate) fn read_json<T: DeserializeOwned>(column: &str, text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| Fault::Corrupt(format!("{column}: {error}")))
}

/// A value for its JSON column.
pub(crate) fn write_json<T: Serialize>(value: &T) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| Fault::Corrupt(error.to_string()))
}

/// Microseconds. A duration beyond what fits means "never", and so does its greatest value.
pub(crate) fn micros(duration: Duration) -> i64 {
    // A quarter of the range: added to any `now` it still does not overflow.
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX).min(i64::MAX / 4)
}
