//! The relay: publishes outbox rows that the fast path left over. Order does not matter and a repetition does no
//! harm, so it takes whatever is old enough, never "everything after number n".

use crate::cancel::CancelToken;
use crate::engine::Engine;
use crate::ports::{OutboxOp, OutboxRow, Outgoing, QueueError, StoreError};
use futures::StreamExt;
use futures::future::{BoxFuture, Either, select};
use futures::stream;
use std::pin::pin;
use std::time::Duration;

/// Messages that the relay publishes at a time.
const IN_FLIGHT: usize = 64;

impl Engine {
    /// Publishes at most `limit` messages older than `older_than`, or until `shutdown`. Returns how many.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn relay<'a>(
        &'a self,
        older_than: Duration,
        limit: u32,
        shutdown: &'a CancelToken,
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            if self.ports.queue.reads_the_outbox() {
                return Ok(0);
            }
            // What this process has published itself need not be published again.
            self.flush_marks().await;
            let rows = self.ports.store.outbox(OutboxOp::Take { older_than, limit }).await?;
            let mut published = Vec::with_capacity(rows.len());
            // Many in flight: one by one, a backlog would take a round trip each.
            let mut publishing = stream::iter(rows).map(|row| self.publish_row(row)).buffered(IN_FLIGHT);
            // What is published and not marked is published once more, and the queue drops what it has seen.
            while let Either::Left((Some(result), _)) = select(publishing.next(), pin!(shutdown.cancelled())).await {
                match result {
                    Ok(id) => published.push(id),
                    Err(error) => {
                        tracing::warn!(%error, "the relay could not publish; the next pass will");
                        break;
                    }
                }
            }
            drop(publishing);
            let count = published.len() as u64;
            if count > 0 {
                self.ports.store.outbox(OutboxOp::Mark(published)).await?;
            }
            Ok(count)
        })
    }

    async fn publish_row(&self, row: OutboxRow) -> Result<i64, QueueError> {
        match row.content {
            Outgoing::Work { queue, message } => self.ports.queue.publish(&queue, &message).await?,
            Outgoing::Events { at, events } => self.ports.queue.publish_events(at, &events).await?,
        }
        Ok(row.id)
    }
}
