//! How long the engine waits for services that may hang.

use crate::ports::{Clock, QueueError, StoreError};
use futures::future::{Either, select};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

/// Timeout of a service that decides nothing, whatever its adapter's own limit is.
const BEST_EFFORT_LIMIT: Duration = Duration::from_millis(250);

/// Timeout of a turn or a request for an answer of the queue. What is published is durable by then, or is
/// published again; and a process that is to stop has little time for it.
const QUEUE_LIMIT: Duration = Duration::from_secs(1);

/// Timeout of a read without which nothing goes on. The timeouts of a database for a connection and for a
/// statement add up to more.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// The answer of the store to a read without which nothing goes on, or that there was none in time. With
/// what the read waits for before it asks.
///
/// # Errors
/// As the read, and [`StoreError::Unavailable`].
pub async fn needed_read<T>(
    clock: &dyn Clock,
    read: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let in_time = answer_within(clock, READ_LIMIT, read).await;
    in_time.unwrap_or_else(|| {
        let why = format!("no answer within {READ_LIMIT:?}");
        Err(StoreError::Unavailable(why))
    })
}

/// The answer of a service that decides nothing, if it comes in time.
pub(crate) async fn best_effort<T>(
    clock: &dyn Clock,
    answer: impl Future<Output = T>,
) -> Option<T> {
    answer_within(clock, BEST_EFFORT_LIMIT, answer).await
}

/// The answer, if it comes within this time.
pub(crate) async fn answer_within<T>(
    clock: &dyn Clock,
    limit: Duration,
    answer: impl Future<Output = T>,
) -> Option<T> {
    match select(pin!(answer), clock.sleep(limit)).await {
        Either::Left((answer, _)) => Some(answer),
        Either::Right(_) => None,
    }
}

/// The queue's answer, or that there was none in time.
pub(crate) async fn queue_answer(
    clock: &dyn Clock,
    answer: impl Future<Output = Result<(), QueueError>>,
) -> Result<(), QueueError> {
    let in_time = answer_within(clock, QUEUE_LIMIT, answer).await;
    in_time.unwrap_or_else(|| Err(QueueError(format!("no answer within {QUEUE_LIMIT:?}"))))
}
