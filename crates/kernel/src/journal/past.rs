//! A task as it stood behind an entry of its audit: read from its journal up to that entry. Must not judge what it reads.

use super::JournalWalk;
use super::fold::Fold;
use super::trail::{refused, unreadable};
use crate::payloads::decrypt_record;
use crate::ports::{Store, StoreError};
use crate::record::TaskRecord;
use counterstep_contracts::{AuditSeq, TaskId};

/// The task behind the change that wrote this entry, at the time of that change; `None`: there is no such entry.
///
/// # Errors
/// [`StoreError`]; [`StoreError::Corrupt`] where the rows do not make a task.
pub async fn task_at(
    store: &Store,
    task: TaskId,
    seq: AuditSeq,
) -> Result<Option<TaskRecord>, StoreError> {
    let mut fold = Fold::new(task);
    let mut walk = JournalWalk::of(store, Some(task.to_string()));
    while let Some(row) = walk.next().await? {
        let rev = row.rev;
        let row = row.journal_row().ok_or_else(|| unreadable(rev))?;
        fold.push(&row).map_err(refused)?;
        if fold.record().task.audit_seq >= seq {
            let at = fold.record().task.updated_at;
            let mut record = fold.into_record(at);
            decrypt_record(store.payload_codec(), &mut record)?;
            return Ok(Some(record));
        }
    }
    Ok(None)
}
