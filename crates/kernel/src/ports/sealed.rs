//! Audit entries as they lie in their rows, for checking them: nothing in them is taken to be what a program wrote.

use crate::record::DbTime;

/// An entry, and what its task's row said of the chain in the same moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedEntry {
    /// Its task's id.
    pub task: String,
    /// Its place.
    pub seq: i64,
    /// When.
    pub at: DbTime,
    /// The id of its change.
    pub change_id: String,
    /// The event's name.
    pub event: String,
    /// The task's state before.
    pub from: Option<String>,
    /// The task's state after.
    pub to: String,
    /// The step concerned.
    pub step: Option<i64>,
    /// Its state before.
    pub step_from: Option<String>,
    /// Its state after.
    pub step_to: Option<String>,
    /// The attempt concerned.
    pub attempt: Option<i64>,
    /// The epoch after the event.
    pub epoch: i64,
    /// Who caused it.
    pub actor: String,
    /// More, as the JSON text in the row.
    pub details: String,
    /// Its link; `None`: a program that made no chains wrote it.
    pub link: Option<Vec<u8>>,
    /// Its seal.
    pub seal: Option<Vec<u8>>,
    /// What its task's row says; `None`: there is no such task.
    pub head: Option<AuditHead>,
}

/// What a task's row says of its audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditHead {
    /// The task's id.
    pub task: String,
    /// Its state.
    pub status: String,
    /// The place of its last entry.
    pub seq: i64,
    /// The seal of its last entry.
    pub seal: Option<Vec<u8>>,
    /// Whether it has any entry at all. Always true of an entry's own head.
    pub has_entries: bool,
}

/// Which entries, or heads, to read: a page in the order of task and place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedPage {
    /// Of this task only.
    pub task: Option<String>,
    /// Behind this entry: its task and its place. Heads: behind this task.
    pub after: Option<(String, i64)>,
    /// At most so many.
    pub limit: u32,
}
