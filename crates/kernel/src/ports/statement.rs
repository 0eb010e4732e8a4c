//! A statement of a store as a value, for a connection that is not the store's. Must not know what it
//! writes.

use super::errors::StoreError;
use crate::change::transition::Transition;
use std::fmt;

/// The constraint that a [statement](ForeignTransactions::statement) names where its key is another task's.
pub const KEY_TAKEN: &str = "idempotency_key_taken";

/// A database where the first change of a task can be part of a transaction that is not the store's.
pub trait ForeignTransactions: Send + Sync + fmt::Debug {
    /// The statement by which [`commit`](super::Storage::commit) writes the first change of a task. It gives one row where it has
    /// written, and none where the task is there already; a key that is another task's ends it with an error of the
    /// constraint [`KEY_TAKEN`].
    ///
    /// # Errors
    /// [`StoreError`]: a change that no statement can write.
    fn statement(&self, first: &Transition) -> Result<SqlStatement, StoreError>;
}

/// One SQL statement with the values of its places `$1`, `$2`, …. Each value is a text or NULL, and
/// the statement itself casts it, so every driver can bind them all alike.
#[derive(Clone, PartialEq, Eq)]
pub struct SqlStatement {
    /// Text of the statement.
    pub sql: String,
    /// Its values, in the order of their places.
    pub params: Vec<Option<String>>,
}

impl fmt::Debug for SqlStatement {
    /// Without the values: they hold the client's request.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlStatement")
            .field("sql", &self.sql)
            .finish_non_exhaustive()
    }
}
