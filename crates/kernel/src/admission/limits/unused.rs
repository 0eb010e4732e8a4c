//! The end of records that no process uses any more: limits per tenant and per label value leave one for
//! each. A record is never deleted by the exchange: its revision would begin again, and a write that
//! was on its way would replace what others have written meanwhile.

use super::grant::LimitState;
use crate::documents::{delete, read_document};
use crate::engine::Engine;
use crate::ports::{DocumentKind, DocumentQuery, StoreError};
use futures::future::BoxFuture;
use std::time::Duration;

const KIND: DocumentKind = DocumentKind::Limit;

/// How long after its last holder's lease a record is deleted: far longer than a write takes.
pub(super) const UNUSED_FOR: Duration = Duration::from_secs(3600);

/// Records of one read.
const PAGE: u32 = 500;

/// Deletes the records of limits that no process has used for an hour. Returns how many.
///
/// # Errors
/// When the store does not answer.
pub fn forget_unused_limits(engine: &Engine) -> BoxFuture<'_, Result<u64, StoreError>> {
    Box::pin(async move {
        let store = &engine.ports.store;
        let (mut forgotten, mut after) = (0, None);
        loop {
            let query = DocumentQuery::Due {
                kind: KIND,
                after,
                limit: PAGE,
            };
            let read = store.documents(&query).await?;
            let is_last = read.rows.len() < PAGE as usize;
            after = read.rows.last().and_then(|row| row.due_place());
            for row in read.rows {
                let is_used = read_document::<LimitState>(KIND, &row.body)
                    .is_ok_and(|state| state.is_used(read.now));
                if !is_used {
                    let delete = delete(KIND, row.tenant, row.name, row.rev);
                    forgotten += u64::from(store.put_document(&delete).await?.is_some());
                }
            }
            if is_last || after.is_none() {
                return Ok(forgotten);
            }
        }
    })
}
