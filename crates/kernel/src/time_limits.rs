//! How long the engine waits for services that may hang.

use crate::ports::{Clock, QueueError};
use futures::future::{Either, select};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

/// A service that decides nothing may take so long to answer, whatever its adapter's own limit is.
const BEST_EFFORT_LIMIT: Duration = Duration::from_millis(250);

/// So long a turn or a request waits for the queue. What it says is durable by then, or comes
/// again; and a process that is to stop has little time for it.
const QUEUE_LIMIT: Duration = Duration::from_secs(1);

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
