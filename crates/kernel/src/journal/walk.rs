//! Walks along journals as they lie in the database: of one task, or of all, in the order of task and place. Holds one page.
//! Must not judge what it reads: that is for a [chain](crate::audit::Walk), or a [`Fold`], beside it.

use super::{Fold, JournalError};
use crate::ports::{ChainRow, JournalPage, Lane, Storage, Store, StoreError};
use crate::record::History;
use counterstep_contracts::{Rev, TaskId};
use std::vec;

/// Maximum number of rows per page: few, since each may hold a whole request or output.
const PAGE: u32 = 100;

/// Maximum number of rows of a past that is read beside others.
const SHORT: u32 = 500;

/// A walk along the rows of journals.
#[derive(Debug)]
pub struct JournalWalk<'a> {
    store: &'a Store,
    next: JournalPage,
    rows: vec::IntoIter<ChainRow>,
    is_over: bool,
}

impl<'a> JournalWalk<'a> {
    /// Before the first row of this task, by its id as it stands in its rows; `None`: of all tasks.
    #[must_use]
    pub fn of(store: &'a Store, task: Option<String>) -> Self {
        Self {
            store,
            next: JournalPage {
                task,
                after: None,
                limit: PAGE,
                lane: Lane::People,
            },
            rows: Vec::new().into_iter(),
            is_over: false,
        }
    }

    /// Behind this row of a task.
    #[must_use]
    pub fn behind(store: &'a Store, task: TaskId, rev: Rev) -> Self {
        let task = task.to_string();
        let mut walk = Self::of(store, Some(task.clone()));
        walk.next.after = Some((task, rev.0));
        walk
    }

    /// With this many rows of a page at most.
    #[must_use]
    pub const fn in_pages_of(mut self, limit: u32) -> Self {
        self.next.limit = limit;
        self
    }

    /// The next row; `None`: there was none when its page was read. Dropped before its end, it has read nothing.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn next(&mut self) -> Result<Option<ChainRow>, StoreError> {
        if self.rows.as_slice().is_empty() && !self.is_over {
            let rows = self.store.journal(&self.next).await?;
            match rows.last() {
                Some(last) => self.next.after = Some((last.task.clone(), last.rev)),
                None => self.is_over = true,
            }
            self.rows = rows.into_iter();
        }
        Ok(self.rows.next())
    }

    /// Whether the next row has to be read from the database.
    #[must_use]
    pub fn is_at_end_of_page(&self) -> bool {
        self.rows.as_slice().is_empty()
    }
}

/// The past that stands in the rows of a journal, all seen in one moment, as far as they can be read: one that is damaged hides no
/// other.
pub(crate) async fn history(storage: &dyn Storage, task: TaskId) -> Result<History, StoreError> {
    let page = JournalPage {
        task: Some(task.to_string()),
        after: None,
        limit: u32::MAX,
        lane: Lane::Engine,
    };
    let mut fold = Fold::with_history(task);
    for row in storage.journal(&page).await? {
        let Some(row) = row.journal_row() else {
            tracing::warn!(%task, rev = row.rev, "a row of a journal is not in the form of one");
            continue;
        };
        match fold.push_damaged(&row) {
            Err(error @ JournalError::Newer { .. }) => {
                return Err(StoreError::Unsupported(error.to_string()));
            }
            Err(error) => tracing::warn!(%task, %error, "a journal is damaged"),
            Ok(()) => {}
        }
    }
    Ok(fold.into_history())
}

/// The rows of a task, added to `fold`. `None`: they cannot be read here, or there are more than 500.
pub(crate) async fn short_past(
    store: &Store,
    task: TaskId,
    mut fold: Fold,
) -> Result<Option<Fold>, StoreError> {
    let mut walk = JournalWalk::of(store, Some(task.to_string()));
    for _ in 0..SHORT {
        match walk.next().await {
            Ok(Some(row)) => {
                if let Some(row) = row.journal_row() {
                    // Damage is for the check of the audit. It hides no other row.
                    drop(fold.push_damaged(&row));
                }
            }
            Ok(None) => return Ok(Some(fold)),
            Err(error) if error.may_pass() => return Err(error),
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}
