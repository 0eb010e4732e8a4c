//! The watch over what runs by itself: messages that no fetch takes, consumers that are gone, and
//! consumers that deliver nothing although their stream holds something. Must not decide on
//! messages.

use super::pool::Pool;
use super::queue::give_back;
use super::streams::Streams;
use counterstep_contracts::QueueName;
use counterstep_kernel::ports::QueueError;
use futures::TryStreamExt;
use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A message that no fetch has taken for this long is given back: the host is full, and others may
/// be idle.
const HELD: Duration = Duration::from_millis(500);

/// Watches until the queue is gone.
pub(super) async fn watch(streams: Weak<Streams>, pool: Weak<Pool>) {
    let mut looked = Instant::now();
    let mut suspects = HashSet::new();
    loop {
        sleep(HELD / 2).await;
        let (Some(streams), Some(pool)) = (streams.upgrade(), pool.upgrade()) else {
            return;
        };
        if streams.link.check().is_err() {
            continue;
        }
        give_back(pool.stale(HELD)).await;
        if looked.elapsed() > streams.options.silent_after {
            looked = Instant::now();
            suspects = look(&streams, &pool, &suspects).await;
        }
    }
}

/// Looks at each consumer. Returns those that are silent without a reason; those that were so
/// before, too, are rebuilt: a message that has arrived between the two questions to the server is
/// no reason.
async fn look(
    streams: &Arc<Streams>,
    pool: &Pool,
    suspects: &HashSet<QueueName>,
) -> HashSet<QueueName> {
    for queue in streams.queues() {
        if let Ok(false) = streams.consumer_exists(&queue).await {
            tracing::warn!(%queue, "the consumer is gone; making it again");
            streams.forget(&queue);
            if let Err(error) = streams.consumer(&queue).await {
                tracing::warn!(%queue, %error, "the consumer could not be made again; trying again later");
            }
        }
    }
    let mut now = HashSet::new();
    for queue in pool.silent(streams.options.silent_after) {
        match undelivered(streams, &queue).await {
            Ok(0) => {}
            Ok(messages) if suspects.contains(&queue) => {
                tracing::error!(%queue, messages, "the consumer is silent although its stream holds messages: rebuilt");
                if let Err(error) = streams.rebuild(&queue).await {
                    tracing::warn!(%queue, %error, "the consumer could not be rebuilt; trying again later");
                    now.insert(queue);
                }
            }
            Ok(_) => {
                now.insert(queue);
            }
            Err(error) => tracing::debug!(%queue, %error, "the watchdog could not look"),
        }
    }
    now
}

/// Messages of a queue that its stream holds and that no worker has. Not the consumer's own count
/// of what is pending: a consumer that has gone astray is wrong about that, too.
async fn undelivered(streams: &Streams, queue: &QueueName) -> Result<usize, QueueError> {
    let failed = |error: &dyn std::fmt::Display| QueueError(error.to_string());
    let stream = streams
        .context
        .get_stream_no_info(streams.names.work_stream())
        .await
        .map_err(|it| failed(&it))?;
    let mut subjects = stream
        .info_with_subjects(streams.names.work_of(queue)?)
        .await
        .map_err(|it| failed(&it))?;
    let mut held = 0;
    while let Some((_, messages)) = subjects.try_next().await.map_err(|it| failed(&it))? {
        held += messages;
    }
    let consumer = stream
        .consumer_info(streams.names.consumer(queue)?)
        .await
        .map_err(|it| failed(&it))?;
    Ok(held.saturating_sub(consumer.num_ack_pending))
}
