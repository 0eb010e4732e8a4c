//! The relay: publishes the events that still stand in the outbox. Order does not matter and a
//! repetition does no harm, so it takes whatever is old enough, never "everything after number n".

use counterstep_kernel::Engine;
use counterstep_kernel::change::announce::clear_outbox;
use counterstep_kernel::ports::{OutboxOp, OutboxRow, QueueError, StoreError};
use counterstep_steps::cancel::CancelToken;
use counterstep_steps::guard;
use futures::StreamExt;
use futures::future::{BoxFuture, Either, select};
use futures::stream;
use std::pin::pin;
use std::time::Duration;

/// Changes whose events the relay publishes at a time.
const IN_FLIGHT: usize = 64;

/// Publishes the events of at most `limit` changes older than `older_than`, or until `shutdown`.
/// Returns of how many.
///
/// # Errors
/// When the store does not answer.
pub fn run<'a>(
    engine: &'a Engine,
    older_than: Duration,
    limit: u32,
    shutdown: &'a CancelToken,
) -> BoxFuture<'a, Result<u64, StoreError>> {
    Box::pin(async move {
        if engine.ports.queue.hands_out_tasks() {
            return Ok(0);
        }
        // What this process has published itself need not be published again.
        clear_outbox(engine).await;
        let store = &engine.ports.store;
        let rows = store.outbox(OutboxOp::Take { older_than, limit }).await?;
        let mut published = Vec::with_capacity(rows.len());
        // Many in flight: one by one, a backlog would take a round trip each.
        let mut publishing = stream::iter(rows)
            .map(|row| publish(engine, row))
            .buffered(IN_FLIGHT);
        // What is published and not deleted is published once more, and the queue drops what it has
        // seen.
        while let Either::Left((Some(result), _)) =
            select(publishing.next(), pin!(shutdown.cancelled())).await
        {
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
        if count > 0
            && let Err(error) = store.outbox(OutboxOp::Published(published)).await
        {
            tracing::warn!(count, %error, "events that are published stay in the outbox; they will be published again");
        }
        Ok(count)
    })
}

async fn publish(engine: &Engine, row: OutboxRow) -> Result<i64, QueueError> {
    let queue = &engine.ports.queue;
    let published = queue.publish_events(row.at, &row.events).await;
    if !guard!("event until it is published", published.is_ok()) {
        published?;
    }
    Ok(row.id)
}
