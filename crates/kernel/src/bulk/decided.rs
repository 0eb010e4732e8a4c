//! What became of each task of an operation: the last ones stand in its document, those before them in pages of their own, which are
//! written with it. Must not change a task.

use super::error::BulkError;
use super::operation::{Operation, find};
use super::outcome::{Chosen, Outcome, short};
use crate::documents::{delete, read_document, write_document};
use crate::ports::{
    Document, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, DocumentsPut, Store,
    StoreError, TaskLine,
};
use counterstep_contracts::pace::{BulkOutcome, BulkResults, BulkTask};
use counterstep_contracts::{TaskId, Tenant};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

const KIND: DocumentKind = DocumentKind::BulkTasks;

/// Tasks of a page.
const PAGE: usize = 200;

/// Maximum number of pages: those of an operation whose tasks can be counted.
const PAGES: u32 = 500;

/// Maximum number of pages that are deleted at a time.
const AT_ONCE: usize = 50;

/// Maximum number of tasks that are looked at for how an operation's tasks stand.
const LOOKED_AT: usize = 500;

/// What became of a task; `None`: it is decided later, or was counted before.
fn decided(chosen: &Chosen, outcome: &Outcome) -> Option<BulkTask> {
    let (mut reason, mut new_task_id) = (None, None);
    let outcome = match outcome {
        Outcome::Done { new_task } => {
            new_task_id = *new_task;
            BulkOutcome::Done
        }
        Outcome::Skipped => BulkOutcome::Skipped,
        Outcome::AlreadyRunAgain => BulkOutcome::AlreadyRunAgain,
        Outcome::Failed(why) => {
            reason = Some(short(why));
            BulkOutcome::Failed
        }
        Outcome::Counted | Outcome::Undecided(_) => return None,
    };
    Some(BulkTask {
        task_id: chosen.task,
        outcome,
        reason,
        new_task_id,
        status: None,
    })
}

/// The task that goes on.
fn goes_on(task: &BulkTask) -> TaskId {
    task.new_task_id.unwrap_or(task.task_id)
}

/// What became of the tasks of an operation: how many pages there are, and the tasks behind them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tasks {
    pages: u32,
    last: Vec<BulkTask>,
}

impl Tasks {
    pub(super) fn add(&mut self, outcomes: &[(Chosen, Outcome)]) {
        if self.pages < PAGES {
            let decided = outcomes
                .iter()
                .filter_map(|(chosen, it)| decided(chosen, it));
            self.last.extend(decided);
        }
    }

    /// Takes whole pages out of the document of its operation, and where that has ended, all of them.
    pub(super) fn take_pages(
        &mut self,
        tenant: &Tenant,
        id: &str,
        has_ended: bool,
    ) -> Result<Vec<DocumentWrite>, StoreError> {
        let mut writes = Vec::new();
        while self.last.len() >= PAGE || (has_ended && !self.last.is_empty()) {
            let page: Vec<BulkTask> = self.last.drain(..PAGE.min(self.last.len())).collect();
            writes.push(DocumentWrite {
                kind: KIND,
                tenant: tenant.clone(),
                name: name(id, self.pages as usize),
                // The operation is written with it, over the revision that was read. A program that knows no pages may have left one.
                expected: None,
                change: DocumentChange::Put {
                    body: write_document(KIND, &page)?,
                    due_at: None,
                },
            });
            self.pages += 1;
            if self.pages == PAGES {
                self.last.clear();
            }
        }
        Ok(writes)
    }

    /// Up to `most` of them behind the first `from`.
    async fn read(
        &self,
        store: &Store,
        tenant: &Tenant,
        id: &str,
        from: usize,
        most: usize,
    ) -> Result<Vec<BulkTask>, StoreError> {
        let pages = self.pages as usize;
        let first = pages.min(from / PAGE);
        let behind = pages.min(first + most.div_ceil(PAGE) + 1);
        let mut found = Vec::new();
        if first < behind {
            let query = DocumentQuery::Named {
                kind: KIND,
                tenant: tenant.clone(),
                names: (first..behind).map(|page| name(id, page)).collect(),
            };
            // By name, which is in their order.
            for page in store.documents(&query).await?.rows {
                found.extend(read_document::<Vec<BulkTask>>(KIND, &page.body)?);
            }
        }
        if behind == pages {
            found.extend(self.last.iter().cloned());
        }
        let found = found.into_iter().skip(from - first * PAGE);
        Ok(found.take(most).collect())
    }
}

/// The name of a page, in whose order pages are read.
fn name(id: &str, page: usize) -> String {
    format!("{id}.{page:03}")
}

/// The tasks of an operation behind the first `from`, and whether there are more.
///
/// # Errors
/// [`BulkError`].
pub async fn tasks(
    store: &Store,
    tenant: &Tenant,
    id: &str,
    from: usize,
    most: usize,
) -> Result<(Vec<BulkTask>, bool), BulkError> {
    let (_, operation, _) = find(store, tenant, id).await?;
    let mut found = operation
        .tasks
        .read(store, tenant, id, from, most + 1)
        .await?;
    let is_more = found.len() > most;
    found.truncate(most);
    let now = lines(store, &found).await?;
    for task in &mut found {
        task.status = now.get(&goes_on(task)).map(|line| line.status);
    }
    Ok((found, is_more))
}

/// How the first tasks stand now on which an operation was carried out.
pub(super) async fn results(
    store: &Store,
    document: &Document,
    operation: &Operation,
) -> Result<BulkResults, StoreError> {
    let (tenant, id) = (&document.tenant, &document.name);
    let mut found = operation
        .tasks
        .read(store, tenant, id, 0, LOOKED_AT)
        .await?;
    found.retain(|it| it.outcome == BulkOutcome::Done);
    let now = lines(store, &found).await?;
    let mut results = BulkResults {
        tasks: found.len() as u64,
        ..BulkResults::default()
    };
    for task in &found {
        match now.get(&goes_on(task)) {
            Some(line) => *results.by_status.entry(line.status).or_default() += 1,
            None => results.deleted += 1,
        }
    }
    Ok(results)
}

async fn lines(store: &Store, of: &[BulkTask]) -> Result<HashMap<TaskId, TaskLine>, StoreError> {
    let tasks: Vec<TaskId> = of.iter().map(goes_on).collect();
    if tasks.is_empty() {
        return Ok(HashMap::new());
    }
    let lines = store.lines(&tasks).await?;
    Ok(lines.into_iter().map(|line| (line.task, line)).collect())
}

/// Deletes an operation that is listed no more, with its pages.
pub(super) async fn forget(
    store: &Store,
    document: Document,
    operation: &Operation,
) -> Result<(), StoreError> {
    let Document {
        tenant,
        name: id,
        rev,
        ..
    } = document;
    let pages = operation.tasks.pages as usize;
    for first in (0..pages).step_by(AT_ONCE) {
        let names = (first..pages.min(first + AT_ONCE)).map(|page| name(&id, page));
        let query = DocumentQuery::Named {
            kind: KIND,
            tenant: tenant.clone(),
            names: names.collect(),
        };
        // A store deletes together only what is there.
        let there = store.documents(&query).await?.rows.into_iter();
        let gone = there.map(|it| delete(KIND, it.tenant, it.name, it.rev));
        if let DocumentsPut::Refused(_) = store.put(&gone.collect::<Vec<_>>()).await? {
            // Another process deletes them, too: the next look goes on.
            return Ok(());
        }
    }
    let gone = delete(super::operation::KIND, tenant, id, rev);
    store.put_document(&gone).await.map(drop)
}
