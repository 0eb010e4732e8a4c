//! A queue on the tasks of the database file, with a doorbell.
//!
//! Owns deliveries and their redelivery, in memory. Writes nothing: the row of a task that waits
//! for a host is its message, so there is no copy that could be lost or could disagree. Several
//! processes may fetch from one file and may be given the same task; the claim decides between
//! them, as between two deliveries of a broker.

use crate::sqlite::Database;
use crate::sqlite::fault::{Fault, micros};
use crate::sqlite::waiting::{self, QueueRows};
use crate::system::SystemClock;
use async_trait::async_trait;
use counterstep_contracts::{QueueName, Rev, TaskId, WorkerMessage};
use counterstep_kernel::ports::{
    Clock, Delivery, DeliveryTag, MessageSource, Queue, QueueError, Settle, StoreError,
};
use diesel::SqliteConnection;
use futures::future::select;
use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How the queue waits.
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// How long after its delivery an unsettled message is delivered again, and how long after the end of its
    /// lease a task is.
    pub ack_wait: Duration,
    /// How often an idle fetch looks for tasks of other processes, and for those whose time has
    /// come.
    pub poll: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            ack_wait: Duration::from_secs(30),
            poll: Duration::from_millis(200),
        }
    }
}

/// The pause after a poll that has found nothing, as a multiple of how long the poll took.
const REST: u32 = 4;

/// The queue on the tasks of a database file. Clones share the doorbell and what is delivered.
#[derive(Debug, Clone)]
pub struct LocalQueue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    database: Database,
    options: QueueOptions,
    clock: Arc<dyn Clock>,
    /// Rings at a publish of this process; the others poll.
    doorbell: Notify,
    delivered: Mutex<Delivered>,
}

/// A task at a revision: a message.
type Key = (TaskId, Rev);

/// What this process was given, for as long as the database may show it as waiting.
#[derive(Debug, Default)]
struct Delivered {
    deliveries: u64,
    messages: HashMap<Key, Last>,
    /// Rows of the last look that could not be read. They come before the others until they are repaired.
    unreadable: usize,
}

/// The last delivery of a message.
#[derive(Debug)]
struct Last {
    delivery: u64,
    queue: QueueName,
    /// Its place in the order of the unclaimed tasks; `None`: it is due, or its host was lost, and
    /// it has another order.
    since: Option<i64>,
    /// Not delivered again before. `None`: settled permanently.
    until: Option<Duration>,
}

impl LocalQueue {
    /// On the same connections as the store.
    #[must_use]
    pub fn new(database: Database, options: QueueOptions) -> Self {
        Self::with_clock(database, options, Arc::new(SystemClock::new()))
    }

    /// The same, with another timer than the machine's.
    #[must_use]
    pub fn with_clock(database: Database, options: QueueOptions, clock: Arc<dyn Clock>) -> Self {
        let (doorbell, delivered) = (Notify::new(), Mutex::default());
        Self {
            inner: Arc::new(Inner {
                database,
                options,
                clock,
                doorbell,
                delivered,
            }),
        }
    }
}

#[async_trait]
impl Queue for LocalQueue {
    fn ack_wait(&self) -> Duration {
        self.inner.options.ack_wait
    }

    async fn publish(
        &self,
        _queue: &QueueName,
        _message: &WorkerMessage,
    ) -> Result<(), QueueError> {
        // The task is there already: its commit wrote it.
        self.inner.doorbell.notify_waiters();
        Ok(())
    }

    async fn fetch(
        &self,
        queues: &[QueueName],
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, QueueError> {
        let clock = &*self.inner.clock;
        let until = clock.monotonic().saturating_add(wait);
        loop {
            // Made before the look: a doorbell that rings between the look and the wait is heard.
            let rung = self.inner.doorbell.notified();
            let begun = clock.monotonic();
            let found = self.inner.take(queues, max).await?;
            let left = until.saturating_sub(clock.monotonic());
            if !found.is_empty() || left.is_zero() {
                return Ok(found);
            }
            // A look reads what is delivered already, too. Where that is much, it is not read at
            // every ring.
            let took = clock.monotonic().saturating_sub(begun);
            clock.sleep(left.min(took * REST)).await;
            let left = until.saturating_sub(clock.monotonic());
            // An end of the wait is no news, only the time to look again.
            let over = clock.sleep(left.min(self.inner.options.poll));
            select(over, pin!(rung)).await;
        }
    }

    async fn settle(&self, tag: &DeliveryTag, settle: Settle) -> Result<(), QueueError> {
        let (key, delivery) = read(&tag.0)
            .ok_or_else(|| QueueError(format!("`{}` is no delivery of this queue", tag.0)))?;
        let mut delivered = self.inner.delivered();
        // What is not there any more, no look can find as waiting.
        let Some(last) = delivered
            .messages
            .get_mut(&key)
            .filter(|last| last.delivery == delivery)
        else {
            return Ok(());
        };
        // One that is settled stays so.
        if last.until.is_some() {
            let now = self.inner.clock.monotonic();
            last.until = match settle {
                Settle::Ack | Settle::Term(_) => None,
                Settle::Nak(delay) => Some(now.saturating_add(delay)),
                Settle::Progress => Some(now + self.inner.options.ack_wait),
            };
        }
        Ok(())
    }

    fn hands_out_tasks(&self) -> bool {
        true
    }
}

impl Inner {
    fn delivered(&self) -> MutexGuard<'_, Delivered> {
        self.delivered.lock()
    }

    /// Up to `max` deliveries.
    async fn take(&self, queues: &[QueueName], max: usize) -> Result<Vec<Delivery>, QueueError> {
        if max == 0 || queues.is_empty() {
            return Ok(Vec::new());
        }
        let (limit, known_at) = {
            let delivered = self.delivered();
            // What is delivered and not claimed yet stands before the others.
            (
                max + delivered.messages.len() + delivered.unreadable,
                delivered.deliveries,
            )
        };
        let (queues, ack_wait) = (queues.to_vec(), micros(self.options.ack_wait));
        let rows = u32::try_from(limit).unwrap_or(u32::MAX);
        // It takes no lock and writes nothing: idle hosts poll permanently.
        let look = move |connection: &mut SqliteConnection, now| {
            let look = waiting::Look {
                now,
                lost_before: now - ack_wait,
                limit: rows,
            };
            Ok(look.at(queues, connection)?)
        };
        let found = self.database.read_at(look).await.map_err(failed)?;
        let look = Look {
            now: self.clock.monotonic(),
            limit,
            max,
            known_at,
            ack_wait: self.options.ack_wait,
        };
        Ok(self.delivered().deliver(found, look))
    }
}

/// A look at the rows, and what it is for.
struct Look {
    /// By the clock of the process.
    now: Duration,
    /// Rows of each queue that were read at most.
    limit: usize,
    /// Deliveries that are asked for.
    max: usize,
    /// The number of the last delivery before the look.
    known_at: u64,
    /// How long a delivery has to be answered.
    ack_wait: Duration,
}

impl Delivered {
    /// Forgets what does not wait any more, and delivers what is not delivered yet: by the rank of
    /// its lane, the longest waiting first.
    fn deliver(
        &mut self,
        found: Vec<QueueRows>,
        Look {
            now,
            limit,
            max,
            known_at,
            ack_wait,
        }: Look,
    ) -> Vec<Delivery> {
        let mut waiting = Vec::new();
        self.unreadable = 0;
        for QueueRows {
            queue,
            unclaimed,
            others,
        } in found
        {
            // A look that did not reach its limit has seen all.
            let reached = (unclaimed.len() >= limit)
                .then(|| unclaimed.last().map(|row| row.since))
                .flatten();
            let from = waiting.len();
            for (row, is_unclaimed) in unclaimed
                .into_iter()
                .map(|row| (row, true))
                .chain(others.into_iter().map(|row| (row, false)))
            {
                let since = row.since;
                match row.decode() {
                    Ok(message) => waiting.push((since, queue.clone(), message, is_unclaimed)),
                    Err(fault) => {
                        self.unreadable += 1;
                        tracing::warn!(?fault, "a task that waits cannot be read");
                    }
                }
            }
            let seen: HashSet<Key> = waiting[from..]
                .iter()
                .map(|(_, _, message, _)| (message.task, message.rev))
                .collect();
            self.messages.retain(|key, last| {
                let is_over = match last.since {
                    Some(since) => reached.is_none_or(|reached| since < reached),
                    None => last.until.is_none_or(|until| until <= now),
                };
                // Those of later deliveries may be newer than what was seen.
                last.queue != queue || last.delivery > known_at || seen.contains(key) || !is_over
            });
        }
        waiting.sort_by_key(|(since, queue, ..)| (queue.rank(), *since));
        let mut deliveries = Vec::new();
        for (since, queue, message, is_unclaimed) in waiting {
            if deliveries.len() == max {
                break;
            }
            let key = (message.task, message.rev);
            if self
                .messages
                .get(&key)
                .is_some_and(|last| last.until.is_none_or(|until| until > now))
            {
                continue;
            }
            self.deliveries += 1;
            let delivery = self.deliveries;
            let since = is_unclaimed.then_some(since);
            self.messages.insert(
                key,
                Last {
                    delivery,
                    queue: queue.clone(),
                    since,
                    until: Some(now + ack_wait),
                },
            );
            let place = format!("tasks/{}", message.task);
            let payload = serde_json::to_vec(&message).unwrap_or_default();
            let source = MessageSource {
                name: place.clone(),
                subject: place,
                payload: payload.into(),
            };
            let tag = DeliveryTag(format!("{}.{}.{delivery}", message.task, message.rev));
            // Other processes on the file deliver it too.
            deliveries.push(Delivery {
                tag,
                queue,
                source,
                is_first: false,
                message: Ok(message),
            });
        }
        deliveries
    }
}

/// A message and the number of its delivery, from a tag.
fn read(tag: &str) -> Option<(Key, u64)> {
    let mut parts = tag.split('.');
    let (task, rev, delivery) = (
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
        parts.next()?.parse().ok()?,
    );
    parts
        .next()
        .is_none()
        .then_some(((task, Rev(rev)), delivery))
}

fn failed(fault: Fault) -> QueueError {
    QueueError(StoreError::from(fault).to_string())
}
