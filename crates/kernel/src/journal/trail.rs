//! The audit of a task, read on page by page, for those who follow the task while it goes on. Holds
//! the task as far as it was read, without what clients and steps handed in; must not judge what it
//! reads.

use crate::journal::{Fold, JournalError, JournalWalk};
use crate::payloads::decrypt_audit;
use crate::ports::{Store, StoreError};
use crate::record::{AuditRow, TaskRecord, TaskRow};
use counterstep_contracts::TaskId;

/// Maximum number of rows per page: few, since each may hold a whole request or output.
const PAGE: u32 = 16;

/// A place in the audit of a task.
#[derive(Debug)]
pub struct Trail {
    fold: Fold,
}

/// What one read gave.
#[derive(Debug, Clone, PartialEq)]
pub struct TrailPage {
    /// In order, without gaps, the first one behind the last of the page before.
    pub entries: Vec<AuditRow>,
    /// There was no more when it was read.
    pub is_last: bool,
}

impl Trail {
    /// Before the first entry of a task.
    #[must_use]
    pub fn of(task: TaskId) -> Self {
        Self {
            fold: Fold::with_history(task),
        }
    }

    /// The task as far as it was read, without request, response, outputs, signals and errors;
    /// before the first read, and where there is no task, at revision 0.
    #[must_use]
    pub const fn record(&self) -> &TaskRecord {
        self.fold.record()
    }

    /// Reads the next page. Dropped before its end, it has read nothing.
    ///
    /// # Errors
    /// [`StoreError`]; after [`StoreError::Corrupt`] and [`StoreError::Unsupported`] nothing more can be
    /// read.
    pub async fn read(&mut self, store: &Store) -> Result<TrailPage, StoreError> {
        let TaskRow { id, rev, .. } = *self.record().task;
        let mut walk = JournalWalk::behind(store, id, rev).in_pages_of(PAGE);
        let mut is_last = true;
        while let Some(row) = walk.next().await? {
            // Read in one moment with the row.
            is_last = row.tip.as_ref().is_none_or(|tip| tip.rev <= row.rev);
            let unreadable = || {
                let what = format!("row {} of the journal is not in the form of one", row.rev);
                StoreError::Corrupt(what)
            };
            let row = row.journal_row().ok_or_else(unreadable)?;
            self.fold.push(&row).map_err(refused)?;
            self.fold.shed();
            if walk.is_at_end_of_page() {
                break;
            }
        }
        let task = self.record().task.id;
        let mut entries = self.fold.take_audit();
        decrypt_audit(store.payload_codec(), task, &mut entries);
        Ok(TrailPage { entries, is_last })
    }
}

pub(super) fn refused(error: JournalError) -> StoreError {
    match error {
        JournalError::Newer { .. } => StoreError::Unsupported(error.to_string()),
        JournalError::Gap { .. } | JournalError::Broken { .. } => {
            StoreError::Corrupt(error.to_string())
        }
    }
}
