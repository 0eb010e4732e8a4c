//! What a store answers where it does not do what it was asked.

use crate::sql::SqlRefused;
use counterstep_contracts::Epoch;

/// A store could not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// It does not answer, or is busy beyond its time limit. Nothing was written.
    #[error("the database does not answer: {0}")]
    Unavailable(String),
    /// The connection was lost while committing: whether the change was written is unknown. Compare
    /// the task's `change_id`.
    #[error("the database's answer to a commit was lost: {0}")]
    Unknown(String),
    /// A row cannot be understood.
    #[error("a row cannot be read: {0}")]
    Corrupt(String),
    /// This program cannot read what is whole, or cannot write it: a newer program has written it, or
    /// the key of its payloads is missing here. To be left to programs that can.
    #[error("this program has to leave the task to others: {0}")]
    Unsupported(String),
}

impl StoreError {
    /// Whether the same may be answered otherwise later: the store is away. Else a row is damaged, or not for this program, and
    /// only that row's tasks meet it.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Unknown(_) => true,
            Self::Corrupt(_) | Self::Unsupported(_) => false,
        }
    }
}

/// A change was not written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Another host has claimed the task since: stop at once.
    #[error("fenced: the task is at epoch {current}")]
    Fenced {
        /// The row's epoch.
        current: Epoch,
    },
    /// Another writer changed the task: load it and judge again.
    #[error("stale: the task has changed meanwhile")]
    Stale,
    /// The idempotency key belongs to another task: read its row.
    #[error("the idempotency key is taken")]
    KeyTaken,
    /// A sweep has condemned the files of the request that was to become a task.
    #[error("condemned: the request took longer than its files were kept for")]
    Condemned,
    /// The schedule that the change fires has moved on: another writer has fired it, or changed it.
    #[error("the schedule has moved on meanwhile")]
    Moved,
    /// Another task of the key holds the place with this number: read which are free.
    #[error("the place is another task's")]
    PlaceTaken,
    /// A statement of the step's own was refused.
    #[error(transparent)]
    Sql(#[from] SqlRefused),
    /// The store itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}
