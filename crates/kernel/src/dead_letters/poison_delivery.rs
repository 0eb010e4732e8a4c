//! Settles a delivery that is poison: stores the message as a document, then terminates its delivery.

use crate::dead_letters::poison;
use crate::engine::Engine;
use crate::engine::time_limits::queue_answer;
use crate::ports::{DeliveryTag, Poison, Settle};
use counterstep_contracts::QueueName;
use std::time::Duration;

/// Keeps a delivery that cannot be acted on, and then ends it: in this order, or a crash between
/// the two loses it.
pub(crate) async fn keep_poison(
    engine: &Engine,
    tag: &DeliveryTag,
    queue: QueueName,
    message: Poison,
) {
    let (source, reason) = (message.source.clone(), message.reason.clone());
    if let Some(left_out) = engine.log_line("poison") {
        tracing::error!(%queue, subject = %message.subject, %source, %reason, left_out, "poison: kept for a person, not delivered again");
    }
    let settle = match poison::keep(&engine.ports.store, &queue, &message).await {
        Ok(()) => Settle::Term(reason),
        Err(error) => {
            if let Some(left_out) = engine.log_line("poison not kept") {
                tracing::warn!(%source, %error, left_out, "poison could not be kept; it will come again");
            }
            Settle::Nak(Duration::from_secs(10))
        }
    };
    if let Err(error) = queue_answer(
        engine.ports.clock.as_ref(),
        engine.ports.queue.settle(tag, settle),
    )
    .await
        && let Some(left_out) = engine.log_line("poison not settled")
    {
        tracing::warn!(%source, %error, left_out, "settling poison failed; it will come again");
    }
}
