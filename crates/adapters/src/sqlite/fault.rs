//! What goes wrong inside a store call, and what the ports call it. Must not decide whether to try
//! again.

pub(crate) use crate::columns::{
    Care, Content, Instead, content, count, goal, micros, parse, parse_some, read_some_json,
    write_json,
};
use crate::columns::{NotRead, Unreadable};
use counterstep_kernel::ports::{CommitError, StoreError};
use diesel::result::{DatabaseErrorKind, Error as DieselError};

/// Why a closure on a connection gave up. Whatever it wrote rolls back.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite said no.
    Sql(DieselError),
    /// A row cannot be understood, or a change does not fit the rows.
    Corrupt(String),
    /// A newer program has written to the task.
    Newer(String),
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
            Fault::Sql(error) => from_sql(&error),
            Fault::Corrupt(text) => Self::Corrupt(text),
            Fault::Newer(text) => Self::Unsupported(text),
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
        _ if may_pass(error) => StoreError::Unavailable(error.to_string()),
        DieselError::DatabaseError(_, text) => StoreError::Corrupt(text.message().to_owned()),
        other => StoreError::Corrupt(other.to_string()),
    }
}

/// Locked, busy, full, unreadable: the transaction rolled back and may be tried again. All else are
/// rows that contradict each other, which the constraints are there to keep out, or that cannot be
/// read.
pub(super) fn may_pass(error: &DieselError) -> bool {
    !matches!(
        error,
        DieselError::DatabaseError(
            DatabaseErrorKind::UniqueViolation
                | DatabaseErrorKind::ForeignKeyViolation
                | DatabaseErrorKind::NotNullViolation
                | DatabaseErrorKind::CheckViolation,
            _,
        ) | DieselError::DeserializationError(_)
            | DieselError::SerializationError(_)
            | DieselError::NotFound
    )
}

/// Whether SQLite waited for a lock without success. Diesel hands on the message only, not the code.
pub(crate) fn is_busy(error: &DieselError) -> bool {
    matches!(error, DieselError::DatabaseError(_, text)
        if text.message().contains("is locked") || text.message().contains("busy"))
}
