//! Why an operation on many tasks was not started, shown or changed.

use crate::ports::StoreError;

/// Maximum number of operations of a tenant, and of a list.
pub(super) const MOST: u32 = 1_000;

/// An operation was not started, shown or changed.
#[derive(Debug, thiserror::Error)]
pub enum BulkError {
    /// The tenant has none of this id.
    #[error("there is no such bulk operation")]
    Gone,
    /// The tenant has as many as there may be.
    #[error("there are {MOST} bulk operations of the last 30 days: as many as there may be")]
    TooMany,
    /// An older program named the group, by what had turned its tasks; they have these ids now.
    #[error("the group has another id now, since tasks are grouped by what blocks them: {0}")]
    Renamed(String),
    /// Every retry met a concurrent change of it.
    #[error("the operation was changed meanwhile: try again")]
    Moved,
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}
