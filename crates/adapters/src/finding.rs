//! What a server cannot promise, in one form for all of them.

use serde::Serialize;

/// Something about a server that an operator should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable name: the server's kind, an underscore, what is wrong.
    pub code: &'static str,
    /// What was found, where.
    pub what: String,
    /// What it leads to.
    pub why: &'static str,
    /// What to do about it.
    pub to_do: String,
}
