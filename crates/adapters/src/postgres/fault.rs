//! What goes wrong inside a store call, and what the ports call it; and how texts are written. Must
//! not decide whether to try again.

use super::options::FOR_POOLERS;
use super::statement::Str;
use crate::columns::{self, NotRead, Unreadable};
pub(super) use crate::columns::{
    Care, Content, content, count, goal, micros, parse, parse_some, read_some_json,
};
use counterstep_kernel::ports::{CommitError, StoreError};
use counterstep_steps::error::chain;
use serde::Serialize;
use std::borrow::Cow;
use tokio_postgres::error::{Severity, SqlState};

/// Why a call gave up.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server refused the statement, and so has written nothing of it. With the name of the
    /// violated constraint, or the reason that `counterstep_refuse` was called with.
    Violated {
        /// The constraint.
        constraint: String,
        /// The server's words.
        text: String,
    },
    /// A row cannot be understood, or a change does not fit the rows.
    Corrupt(String),
    /// A newer program has written to the task.
    Newer(String),
    /// A guard or a claim did not hold.
    Refused(CommitError),
    /// No connection, or the server gave up: a time limit, a deadlock, no room. Nothing was
    /// written.
    Unavailable(String),
    /// Another transaction has held a lock for longer than the statement may wait. Nothing was
    /// written.
    Locked(String),
    /// The role of this process lacks a right. Nothing was written.
    Forbidden(String),
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

impl From<NotRead> for Fault {
    fn from(why: NotRead) -> Self {
        match why {
            NotRead::Newer(text) => Self::Newer(text),
            NotRead::Damaged(unreadable) => unreadable.into(),
        }
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
            Fault::Newer(text) => Self::Unsupported(text),
            Fault::Refused(CommitError::Store(error)) => error,
            Fault::Refused(refusal) => Self::Corrupt(refusal.to_string()),
            Fault::Unavailable(text) | Fault::Locked(text) | Fault::Forbidden(text) => {
                Self::Unavailable(text)
            }
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

/// What an error of the driver means.
// An error is an answer of a server that lives, and has written nothing; what is fatal, or comes
// from a pooler that has lost its server, may come after the commit.
pub(super) fn judge(error: &tokio_postgres::Error) -> Fault {
    let Some(answer) = error.as_db_error() else {
        return Fault::Lost(chain(error));
    };
    let mut text = answer.message().to_owned();
    // Prepared in one session of the server, and used in another.
    let no_session = [
        SqlState::INVALID_SQL_STATEMENT_NAME,
        SqlState::DUPLICATE_PSTATEMENT,
    ];
    if no_session.contains(answer.code()) {
        text += FOR_POOLERS;
    }
    let refused = answer.parsed_severity() == Some(Severity::Error);
    match answer.constraint() {
        _ if !refused => Fault::Lost(text),
        Some(constraint) => Fault::Violated {
            constraint: constraint.to_owned(),
            text,
        },
        None if *answer.code() == SqlState::NOT_NULL_VIOLATION => Fault::Corrupt(text),
        None if *answer.code() == SqlState::LOCK_NOT_AVAILABLE => Fault::Locked(text),
        None if *answer.code() == SqlState::INSUFFICIENT_PRIVILEGE => Fault::Forbidden(text),
        None => Fault::Unavailable(text),
    }
}

/// A value for its JSON column. A NUL in it is written as an escape, so that it can be stored and
/// comes back.
pub(super) fn write_json<T: Serialize>(value: &T) -> Result<Str<'static>, Fault> {
    Ok(Cow::Owned(columns::write_json(value)?))
}

/// A text for its column. PostgreSQL takes no NUL in a text; in a name or a key it is refused.
pub(super) fn name<'a>(column: &str, text: &'a str) -> Result<Str<'a>, Fault> {
    if text.contains('\0') {
        return Err(Fault::Corrupt(format!(
            "{column}: a NUL in a text, which PostgreSQL cannot store: {text:?}"
        )));
    }
    Ok(Cow::Borrowed(text))
}

/// A text for people to read: an error must not make its task unwritable, so a NUL becomes its
/// picture, `␀`.
pub(super) fn words(text: &str) -> Str<'_> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{2400}"))
    } else {
        Cow::Borrowed(text)
    }
}
