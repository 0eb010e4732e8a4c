//! What goes wrong inside a store call, and what the ports call it; and how texts are written. Must not decide whether
//! to try again.

use super::statement::Str;
use crate::columns::{self, Unreadable};
pub(super) use crate::columns::{Care, count, goal, likely_goal, micros, parse, parse_some, read_json, read_some_json};
use counterstep_kernel::ports::{CommitError, StoreError};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use serde::Serialize;
use std::borrow::Cow;

/// Why a call gave up.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server refused the statement, and so has written nothing of it. With the name of the violated constraint,
    /// or the reason that `counterstep_refuse` was called with.
    Violated {
        /// The constraint.
        constraint: String,
        /// The server's words.
        text: String,
    },
    /// A row cannot be understood, or a change does not fit the rows.
    Corrupt(String),
    /// A guard or a claim did not hold.
    Refused(CommitError),
    /// No connection, or the server gave up: a time limit, a deadlock, no room. Nothing was written.
    Unavailable(String),
    /// The connection was lost, or took too long, after the statement was handed to it.
    Lost(String),
}

impl Fault {
    /// Of a call that writes nothing: then nothing is unknown.
    pub(super) fn of_a_read(self) -> Self {
        match self {
            Self::Lost(text) => Self::Unavailable(text),
            other => other,
        }
    }
}

impl From<Unreadable> for Fault {
    fn from(Unreadable(text, _): Unreadable) -> Self {
        Self::Corrupt(text)
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
            Fault::Violated { text, .. } | Fault::Corrupt(text) => Self::Corrupt(text),
            Fault::Refused(CommitError::Store(error)) => error,
            Fault::Refused(refusal) => Self::Corrupt(refusal.to_string()),
            Fault::Unavailable(text) => Self::Unavailable(text),
            Fault::Lost(text) => Self::Unknown(text),
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

/// What an error of a statement says. `None`: only the connection can tell whether the server lives.
// Diesel hands on the kind, the words and the constraint of an error, but no SQLSTATE. It is not needed: what a constraint
// refused, or `counterstep_refuse`, was an answer; and after any other answer it is the connection that tells a refused
// statement (57014, 55P03, 40P01, 53xxx: it lives) from the end of the server's process (57P01 and its like, which may
// come after the commit: it is closed).
pub(super) fn judge(error: &DieselError) -> Option<Fault> {
    match error {
        DieselError::DatabaseError(DatabaseErrorKind::UnableToSendCommand | DatabaseErrorKind::ClosedConnection, _) => {
            Some(Fault::Lost(error.to_string()))
        }
        DieselError::DatabaseError(kind, text) => match (kind, text.constraint_name()) {
            (_, Some(constraint)) => {
                Some(Fault::Violated { constraint: constraint.to_owned(), text: text.message().to_owned() })
            }
            (DatabaseErrorKind::NotNullViolation, None) => Some(Fault::Corrupt(text.message().to_owned())),
            (_, None) => None,
        },
        DieselError::DeserializationError(_) | DieselError::SerializationError(_) => {
            Some(Fault::Corrupt(error.to_string()))
        }
        _ => None,
    }
}

/// A value for its JSON column. A NUL in it is written as an escape, so that it can be stored and comes back.
pub(super) fn write_json<T: Serialize>(value: &T) -> Result<Str<'static>, Fault> {
    Ok(Cow::Owned(columns::write_json(value)?))
}

/// A text for its column. PostgreSQL takes no NUL in a text; in a name or a key it is refused.
pub(super) fn name<'a>(column: &str, text: &'a str) -> Result<Str<'a>, Fault> {
    if text.contains('\0') {
        return Err(Fault::Corrupt(format!("{column}: a NUL in a text, which PostgreSQL cannot store: {text:?}")));
    }
    Ok(Cow::Borrowed(text))
}

/// A text for people to read: an error must not make its task unwritable, so a NUL becomes its picture, `␀`.
pub(super) fn words(text: &str) -> Str<'_> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{2400}")) } else { Cow::Borrowed(text) }
}
