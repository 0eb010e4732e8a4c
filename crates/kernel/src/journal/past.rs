//! A task as it stood behind an entry of its audit: read from its journal up to that entry. Must not judge what it reads.

use super::JournalWalk;
use super::fold::{Fold, JournalError};
use super::trail::refused;
use crate::payloads::decrypt_past;
use crate::ports::{Store, StoreError};
use crate::record::TaskRecord;
use counterstep_contracts::{AuditSeq, TaskId, TaskStatus};

/// The task behind the change that wrote this entry, or the last one, at the time of that change; `None`: there is no such entry.
///
/// # Errors
/// [`StoreError`].
pub async fn task_at(
    store: &Store,
    task: TaskId,
    seq: Option<AuditSeq>,
) -> Result<Option<TaskRecord>, StoreError> {
    let mut fold = Fold::new(task);
    let mut walk = JournalWalk::of(store, Some(task.to_string()));
    let (mut is_over, mut is_there) = (false, false);
    while let Some(row) = walk.next().await? {
        let tip = row.tip.as_ref();
        is_over = tip.is_some_and(|tip| tip.status.parse().is_ok_and(TaskStatus::is_terminal));
        // A damaged row is shown as far as it goes, as it is of the task now.
        let pushed = row.journal_row().map(|row| fold.push_damaged(&row));
        if let Some(Err(error @ JournalError::Newer { .. })) = pushed {
            return Err(refused(error));
        }
        is_there = seq.is_none_or(|seq| fold.record().task.audit_seq >= seq);
        if seq.is_some() && is_there {
            break;
        }
    }
    if !is_there {
        return Ok(None);
    }
    let at = fold.record().task.updated_at;
    let mut record = fold.into_record(at);
    decrypt_past(store.payload_codec(), &mut record, is_over)?;
    Ok(Some(record))
}
