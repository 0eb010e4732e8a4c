//! The audit of a task, read on page by page, for those who follow the task while it goes on. Holds
//! the task as far as it was read, without what clients and steps handed in; must not judge what it
//! reads.

use crate::journal::{Fold, JournalError};
use crate::payloads::decrypt_audit;
use crate::ports::{AuditPage, Store, StoreError};
use crate::record::{AuditRow, TaskRecord};
use counterstep_contracts::TaskId;

/// Rows of a page: few, since each may hold a whole request or output.
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
        let task = &self.record().task;
        let id = task.id.to_string();
        let page = AuditPage {
            task: Some(id.clone()),
            after: Some((id, task.rev.0)),
            limit: PAGE,
        };
        let rows = store.audit_page(&page).await?;
        // Read in one moment with the row.
        let is_last = rows
            .last()
            .is_none_or(|row| row.tip.as_ref().is_none_or(|tip| tip.rev <= row.rev));
        for row in rows {
            let unreadable = || {
                let what = format!("row {} of the journal is not in the form of one", row.rev);
                StoreError::Corrupt(what)
            };
            let row = row.journal_row().ok_or_else(unreadable)?;
            self.fold.push(&row).map_err(refused)?;
            self.fold.shed();
        }
        let task = self.record().task.id;
        let mut entries = self.fold.take_audit();
        decrypt_audit(store.payload_codec(), task, &mut entries);
        Ok(TrailPage { entries, is_last })
    }
}

fn refused(error: JournalError) -> StoreError {
    match error {
        JournalError::Newer { .. } => StoreError::Unsupported(error.to_string()),
        JournalError::Gap { .. } | JournalError::Broken { .. } => {
            StoreError::Corrupt(error.to_string())
        }
    }
}
