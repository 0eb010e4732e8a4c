//! One fetch: over several queues, no more than was asked for, and nothing lost where it is dropped
//! half-way.

use super::pool::{Arrived, Lane, Pool, Request};
use super::streams::Streams;
use async_nats::jetstream::Message;
use counterstep_contracts::{QueueName, WorkerMessage};
use counterstep_kernel::ports::{Delivery, DeliveryTag, MessageSource, QueueError};
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// Minimum duration of a pull request: a shorter one is not sent.
const SHORTEST: Duration = Duration::from_millis(5);

/// Maximum wait for the next message of a higher lane before a lower one has its turn: about a round trip.
const ROUND_TRIP: Duration = Duration::from_millis(5);

/// Up to `max` deliveries, waiting up to `wait` for the first.
pub(super) async fn fetch(
    streams: &Streams,
    pool: &Pool,
    queues: &[QueueName],
    max: usize,
    wait: Duration,
) -> Result<Vec<Delivery>, QueueError> {
    let until = Instant::now() + wait;
    if max == 0 || queues.is_empty() {
        sleep_until(until).await;
        return Ok(Vec::new());
    }
    let mut fetching = Fetching::begin(pool, queues, max);
    // Requests go to all lanes, also where one has messages here already: those must not hide the messages of a higher lane.
    // An error is reported below, by the request that is repeated where no message is here.
    let is_known = |queue| streams.knows(queue) || streams.lacks(queue);
    let are_known = fetching.lanes.iter().all(|(queue, _)| is_known(queue));
    if are_known && streams.link.check().is_ok() && fetching.ask(streams, wait).await.is_ok() {
        fetching.higher_lanes(streams).await;
    }
    // What a request of an earlier fetch has brought is handed over whatever the connection does
    // now.
    fetching.collect().await;
    // A look without a wait still needs the way to the server and back.
    let limit = if wait.is_zero() {
        Instant::now() + streams.options.timeout
    } else {
        until
    };
    while fetching.found.is_empty() {
        streams.link.check()?;
        let left = until.saturating_duration_since(Instant::now());
        if !wait.is_zero() && left < SHORTEST {
            sleep_until(until).await;
            break;
        }
        // Making a consumer may take longer than the wait, and its time limit bounds it.
        fetching.ask(streams, left).await?;
        match timeout_at(limit, fetching.first()).await {
            Ok(None) => fetching.collect().await,
            Ok(Some((queue, error))) => {
                report_failed_request(streams, &queue, &error);
                sleep(left.min(SHORTEST * 10)).await;
            }
            // The wait is over. What the request may still bring is for the next fetch.
            Err(_) => break,
        }
        if wait.is_zero() {
            break;
        }
    }
    fetching.note_answers(streams);
    Ok(fetching.finish(streams.options.max_message_bytes))
}

fn report_failed_request(streams: &Streams, queue: &QueueName, error: &str) {
    tracing::warn!(%queue, error, "a pull request failed; looking for its consumer");
    streams.forget(queue);
}

/// The lanes that a fetch has taken, and what it has found. Dropped, it gives everything back.
struct Fetching<'a> {
    pool: &'a Pool,
    lanes: Vec<(QueueName, Lane)>,
    found: Vec<(QueueName, Message)>,
    max: usize,
    /// The lanes are sorted by rank.
    by_rank: bool,
}

impl<'a> Fetching<'a> {
    fn begin(pool: &'a Pool, queues: &[QueueName], max: usize) -> Self {
        let mut lanes: Vec<_> = queues
            .iter()
            .map(|queue| (queue.clone(), pool.take(queue)))
            .collect();
        let by_rank = pool.order_for_fetch(&mut lanes);
        Self {
            pool,
            lanes,
            found: Vec::new(),
            max,
            by_rank,
        }
    }

    /// Takes the messages of higher lanes that arrive within a round trip, before lower lanes have their turn.
    async fn higher_lanes(&mut self, streams: &Streams) {
        let lowest = self.lanes.iter().map(|(queue, _)| queue.rank()).max();
        if !self.by_rank {
            return;
        }
        let until = Instant::now() + ROUND_TRIP;
        let Self {
            lanes, found, max, ..
        } = self;
        let mut higher: Vec<_> = lanes
            .iter_mut()
            .filter(|(queue, _)| Some(queue.rank()) != lowest)
            .collect();
        while found.len() < *max && higher.iter().any(|(_, lane)| lane.is_about_to_deliver()) {
            let next = std::future::poll_fn(|cx| {
                for (queue, lane) in &mut higher {
                    if let Some(arrived) = lane.poll(cx) {
                        return Poll::Ready(Some((queue.clone(), arrived)));
                    }
                }
                match higher.iter().any(|(_, lane)| lane.is_about_to_deliver()) {
                    true => Poll::Pending,
                    false => Poll::Ready(None),
                }
            });
            match timeout_at(until, next).await {
                Ok(Some((queue, Arrived::Message(message)))) => found.push((queue, *message)),
                Ok(Some((queue, Arrived::Failed(error)))) => {
                    report_failed_request(streams, &queue, &error)
                }
                Ok(None) => break,
                Err(_) => {
                    higher
                        .iter_mut()
                        .for_each(|(_, lane)| lane.expects_no_more());
                    break;
                }
            }
        }
    }

    /// Sends a request for each lane that has none under way. Together they ask for what is free,
    /// and each for one at least; what is too much then waits in the pool for the next fetch.
    async fn ask(&mut self, streams: &Streams, wait: Duration) -> Result<(), QueueError> {
        let outstanding: usize = self.lanes.iter().map(|(_, lane)| lane.outstanding()).sum();
        let idle = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.outstanding() == 0)
            .count();
        let share = (self.max.saturating_sub(outstanding + self.found.len()) / idle.max(1)).max(1);
        let mut refused = None;
        for (queue, lane) in self
            .lanes
            .iter_mut()
            .filter(|(_, lane)| lane.outstanding() == 0)
        {
            let consumer = match streams.consumer(queue).await {
                // The other queues go on.
                Err(error) if streams.lacks(queue) => {
                    refused = Some(error);
                    continue;
                }
                consumer => consumer?,
            };
            let failed =
                |error: String| QueueError(format!("a pull request for queue `{queue}`: {error}"));
            let batch = if wait.is_zero() {
                consumer.fetch().max_messages(share).messages().await
            } else {
                consumer
                    .batch()
                    .max_messages(share)
                    .expires(wait)
                    .messages()
                    .await
            };
            let batch = batch.map_err(|error| failed(error.to_string()))?;
            let until = Instant::now()
                + if wait.is_zero() {
                    streams.options.timeout
                } else {
                    wait
                };
            lane.add(Request::new(batch, share, until));
        }
        let asks_none = self.lanes.iter().all(|(_, lane)| lane.outstanding() == 0);
        refused.filter(|_| asks_none).map_or(Ok(()), Err)
    }

    /// Waits for the first message, or until a request is over. An error names its queue.
    async fn first(&mut self) -> Option<(QueueName, String)> {
        std::future::poll_fn(|cx| {
            let mut over = false;
            for (queue, lane) in &mut self.lanes {
                match lane.poll(cx) {
                    Some(Arrived::Message(message)) => {
                        self.found.push((queue.clone(), *message));
                        return Poll::Ready(None);
                    }
                    Some(Arrived::Failed(error)) => {
                        return Poll::Ready(Some((queue.clone(), error)));
                    }
                    None => over |= lane.outstanding() == 0,
                }
            }
            if over {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Takes what else is here already, without waiting.
    async fn collect(&mut self) {
        std::future::poll_fn(|cx| {
            for (queue, lane) in &mut self.lanes {
                while self.found.len() < self.max {
                    match lane.poll(cx) {
                        Some(Arrived::Message(message)) => {
                            self.found.push((queue.clone(), *message))
                        }
                        // The next request of this queue says it again.
                        Some(Arrived::Failed(_)) => {}
                        None => break,
                    }
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    fn note_answers(&mut self, streams: &Streams) {
        for (queue, lane) in &mut self.lanes {
            if lane.take_answered() {
                streams.may_fetch(queue);
            }
        }
    }

    fn finish(mut self, max_bytes: usize) -> Vec<Delivery> {
        std::mem::take(&mut self.found)
            .into_iter()
            .map(|(queue, message)| read(queue, message, max_bytes))
            .collect()
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        for (queue, message) in self.found.drain(..).rev() {
            if let Some((_, lane)) = self.lanes.iter_mut().find(|(of, _)| *of == queue) {
                lane.give_back(message);
            }
        }
        for (queue, lane) in self.lanes.drain(..) {
            self.pool.park(&queue, lane);
        }
    }
}

fn read(queue: QueueName, message: Message, max_bytes: usize) -> Delivery {
    let tag = DeliveryTag(
        message
            .reply
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
    );
    let size = message.payload.len();
    let read = if size > max_bytes {
        Err(format!("it has {size} bytes; at most {max_bytes} are read"))
    } else {
        serde_json::from_slice::<WorkerMessage>(&message.payload)
            .map_err(|error| format!("it is no message of ours: {error}"))
    };
    // Sequences start anew in a stream that was wiped, the time of arrival does not.
    let (name, is_first) = message.info().map_or_else(
        |_| (message.subject.to_string(), false),
        |info| {
            let name = format!(
                "{}/{}@{}",
                info.stream,
                info.stream_sequence,
                info.published.unix_timestamp_nanos()
            );
            (name, info.delivered == 1)
        },
    );
    let source = MessageSource {
        name,
        subject: message.subject.to_string(),
        payload: message.payload.clone(),
    };
    Delivery {
        tag,
        queue,
        is_first,
        message: read.map_err(|reason| source.poison(reason)),
        source,
    }
}
