//! Rows of journals as they lie in the database, for checking them: nothing in them is taken to be
//! what a program wrote.

use crate::audit::{ContentHash, EntryHash, Facts};
use crate::journal::JournalRow;
use crate::record::DbTime;
use counterstep_contracts::{Epoch, Rev};

/// A row, and what its task's row said of the chain in the same moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainRow {
    /// Its task's id.
    pub task: String,
    /// Position in the journal of the task.
    pub rev: i64,
    /// When it was written.
    pub at: DbTime,
    /// The id of its change.
    pub change_id: String,
    /// The task's epoch after the change.
    pub epoch: i64,
    /// Actor that caused it.
    pub actor: String,
    /// The form of its texts.
    pub form: i64,
    /// What happened, as the JSON text in the row.
    pub entries: String,
    /// What was handed in, as the JSON text in the row; `None`: nothing, or it was erased.
    pub data: Option<String>,
    /// Its link; of a row in which none stands, empty.
    pub link: Vec<u8>,
    /// Its seal; of a row in which none stands, empty.
    pub seal: Vec<u8>,
    /// What its task's row says; `None`: there is no such task.
    pub tip: Option<ChainTip>,
}

impl ChainRow {
    /// What its link binds.
    #[must_use]
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            task: &self.task,
            rev: self.rev,
            change_id: &self.change_id,
            epoch: self.epoch,
            actor: &self.actor,
            form: self.form,
            entries: &self.entries,
        }
    }

    /// The row as a fold takes it; `None`: it is not in the form of one.
    #[must_use]
    pub fn journal_row(&self) -> Option<JournalRow> {
        Some(JournalRow {
            rev: Rev(self.rev),
            epoch: Epoch(self.epoch),
            at: self.at,
            change_id: self.change_id.parse().ok()?,
            actor: self.actor.clone(),
            form: i16::try_from(self.form).ok()?,
            entries: self.entries.clone(),
            data: self.data.clone(),
            link: ContentHash(self.link.clone()),
            seal: EntryHash(self.seal.clone()),
        })
    }
}

/// What a task's row says of its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainTip {
    /// The task's id.
    pub task: String,
    /// State of the task.
    pub status: String,
    /// The place of its last row.
    pub rev: i64,
    /// The seal of its last row; of a task's row in which none stands, empty.
    pub seal: Vec<u8>,
    /// Whether it has any row at all. Always true of the tip beside a row.
    pub has_rows: bool,
}

/// Who waits for rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// The engine: it must not stand behind what people ask for.
    Engine,
    /// People, and checks.
    People,
}

/// Which rows, or tips, to read: a page in the order of task and place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalPage {
    /// Of this task only.
    pub task: Option<String>,
    /// Behind this row: its task and its place. Tips: behind this task.
    pub after: Option<(String, i64)>,
    /// Maximum number of them.
    pub limit: u32,
    /// Who waits for them.
    pub lane: Lane,
}
