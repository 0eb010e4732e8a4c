//! The relay: publishes outbox rows that the fast path left over. Order does not matter and a repetition does no
//! harm, so it takes whatever is old enough, never "everything after number n".

use crate::engine::Engine;
use crate::ports::{OutboxOp, StoreError};
use futures::future::BoxFuture;
use std::time::Duration;

impl Engine {
    /// Publishes at most `limit` messages older than `older_than`. Returns how many.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn relay(&self, older_than: Duration, limit: u32) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            if self.ports.queue.reads_the_outbox() {
                return Ok(0);
            }
            let rows = self.ports.store.outbox(OutboxOp::Take { older_than, limit }).await?;
            let mut published = Vec::with_capacity(rows.len());
            for row in rows {
                match self.ports.queue.publish(&row.queue, &row.message).await {
                    Ok(()) => published.push(row.id),
                    Err(error) => {
                        tracing::warn!(%error, "the relay could not publish; the next pass will");
                        break;
                    }
                }
            }
            let count = published.len() as u64;
            if count > 0 {
                self.ports.store.outbox(OutboxOp::Mark(published)).await?;
            }
            Ok(count)
        })
    }
}
