//! A statement of a store as a value, for a connection that is not the store's. Must not know what it
//! writes.

use std::fmt;

/// One SQL statement with the values of its places `$1`, `$2`, …. Each value is a text or NULL, and
/// the statement itself casts it, so every driver can bind them all alike.
#[derive(Clone, PartialEq, Eq)]
pub struct SqlStatement {
    /// Its text.
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
