//! A queue on the outbox rows of the database file, with a doorbell.
//!
//! Owns deliveries and their redelivery. Must not know what a message is about, nor write any other table. Nothing is
//! copied: the row that a commit wrote is the message, so there is no relay between them and no second truth. Several
//! processes may fetch from one file; each delivery goes to one of them.

use crate::sqlite::Database;
use crate::sqlite::deliveries::{self, Deliverable};
use crate::sqlite::fault::{Fault, micros, read_json};
use crate::sqlite::pool::Durability;
use async_trait::async_trait;
use counterstep_contracts::{QueueName, WorkerMessage};
use counterstep_kernel::ports::{Delivery, DeliveryTag, MessageSource, Queue, QueueError, Settle, StoreError};
use diesel::SqliteConnection;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

/// How the queue waits.
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// After this long without a settlement a message is delivered again.
    pub ack_wait: Duration,
    /// How often an idle fetch looks for messages of other processes, and for those whose time has come.
    pub poll: Duration,
    /// For so long settlements are gathered, where no fetch writes them earlier: each write costs the file's lock.
    pub gather: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { ack_wait: Duration::from_secs(30), poll: Duration::from_millis(200), gather: Duration::from_millis(50) }
    }
}

/// The queue on the outbox rows of a database file. Clones share the doorbell and what is to be settled.
#[derive(Debug, Clone)]
pub struct LocalQueue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    database: Database,
    options: QueueOptions,
    /// Rings at a publish of this process; the others poll.
    doorbell: Notify,
    /// The last settlement of each delivery that is not written yet.
    pending: Mutex<HashMap<(i64, i64), Settle>>,
}

impl LocalQueue {
    /// On the same connections as the store.
    #[must_use]
    pub fn new(database: Database, options: QueueOptions) -> Self {
        let (doorbell, pending) = (Notify::new(), Mutex::default());
        Self { inner: Arc::new(Inner { database, options, doorbell, pending }) }
    }

    /// Writes the settlements that were gathered, for a shutdown that wants to wait for them. Those that are lost
    /// only mean redeliveries.
    ///
    /// # Errors
    /// When the database does not answer; they are kept for the next try.
    pub async fn flush(&self) -> Result<(), QueueError> {
        self.inner.flush().await
    }
}

#[async_trait]
impl Queue for LocalQueue {
    async fn publish(&self, _queue: &QueueName, _message: &WorkerMessage) -> Result<(), QueueError> {
        // The row is there already: its commit wrote it.
        self.inner.doorbell.notify_waiters();
        Ok(())
    }

    async fn fetch(&self, queues: &[QueueName], max: usize, wait: Duration) -> Result<Vec<Delivery>, QueueError> {
        let until = Instant::now() + wait;
        loop {
            // Made before the look: a doorbell that rings between the look and the wait is heard.
            let rung = self.inner.doorbell.notified();
            let found = self.inner.take(queues, max).await?;
            let left = until.saturating_duration_since(Instant::now());
            if !found.is_empty() || left.is_zero() {
                return Ok(found);
            }
            // An end of the wait is no news, only the time to look again.
            let _ = timeout(left.min(self.inner.options.poll), rung).await;
        }
    }

    async fn settle(&self, tag: &DeliveryTag, settle: Settle) -> Result<(), QueueError> {
        let delivery = tag.0.split_once('.').and_then(|(id, n)| Some((id.parse().ok()?, n.parse().ok()?)));
        let delivery = delivery.ok_or_else(|| QueueError(format!("`{}` is no delivery of this queue", tag.0)))?;
        let first = {
            let mut pending = self.inner.pending();
            let first = pending.is_empty();
            pending.insert(delivery, settle);
            first
        };
        if first {
            // Whoever makes it non-empty starts this, and it lives until it finds it empty: nothing waits for ever.
            // It holds the queue's connections a moment longer than the queue itself, so that a last ack is written.
            let inner = self.inner.clone();
            tokio::spawn(async move {
                while !inner.pending().is_empty() {
                    sleep(inner.options.gather).await;
                    if let Err(error) = inner.flush().await {
                        tracing::warn!(%error, "settlements wait for the database");
                    }
                }
            });
        }
        Ok(())
    }

    fn reads_the_outbox(&self) -> bool {
        true
    }
}

impl Inner {
    fn pending(&self) -> std::sync::MutexGuard<'_, HashMap<(i64, i64), Settle>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Up to `max` deliveries, and whatever is to be settled in the same transaction.
    async fn take(self: &Arc<Self>, queues: &[QueueName], max: usize) -> Result<Vec<Delivery>, QueueError> {
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        if self.pending().is_empty() {
            let queues = queues.to_vec();
            // Idle hosts look all the time, so the look takes no lock and writes nothing.
            let look = move |connection: &mut SqliteConnection, now| {
                Ok(visible(connection, &queues, now, max.min(1))?.is_empty())
            };
            if self.database.read_at(look).await.map_err(failed)? {
                return Ok(Vec::new());
            }
        }
        let (queues, ack_wait) = (queues.to_vec(), micros(self.options.ack_wait));
        self.write(move |connection, now| {
            let mut taken = Vec::new();
            // Looked for once more: another process may have had them since.
            for row in visible(connection, &queues, now, max)? {
                deliveries::deliver(connection, row.id, now + ack_wait)?;
                let delivery = (row.id, row.deliveries + 1);
                let message = read_json("outbox.message", &row.message);
                let place = format!("outbox/{}", row.id);
                let source = MessageSource { name: place.clone(), subject: place, payload: row.message.into() };
                let message =
                    message.map_err(|unreadable| source.poison(StoreError::from(Fault::from(unreadable)).to_string()));
                let tag = DeliveryTag(format!("{}.{}", delivery.0, delivery.1));
                taken.push(Delivery { tag, queue: QueueName(row.queue), source, message });
            }
            Ok(taken)
        })
        .await
    }

    async fn flush(self: &Arc<Self>) -> Result<(), QueueError> {
        if self.pending().is_empty() {
            return Ok(());
        }
        self.write(|_, _| Ok(())).await
    }

    /// Writes what is to be settled, and `more` with it.
    // Relaxed: after a power cut nobody works on a delivery any more, and a lost ack is a redelivery.
    async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        more: impl FnOnce(&mut SqliteConnection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, QueueError> {
        let (inner, ack_wait) = (self.clone(), micros(self.options.ack_wait));
        let written = self.database.write(Durability::Relaxed, move |connection, now| {
            // A copy: what is pending stays so until it is written for certain. To settle twice changes nothing.
            let settled = inner.pending().clone();
            for (&delivery, settle) in &settled {
                match settle {
                    Settle::Ack => deliveries::settle(connection, delivery, now, None)?,
                    Settle::Term(reason) => deliveries::settle(connection, delivery, now, Some(reason))?,
                    Settle::Nak(delay) => deliveries::postpone(connection, delivery, now + micros(*delay))?,
                    Settle::Progress => deliveries::postpone(connection, delivery, now + ack_wait)?,
                }
            }
            Ok((more(connection, now)?, settled))
        });
        let (done, settled) = written.await.map_err(failed)?;
        // Except where a later settlement of the same delivery has come meanwhile.
        self.pending().retain(|delivery, settle| settled.get(delivery) != Some(settle));
        Ok(done)
    }
}

/// The oldest visible messages of these queues.
fn visible(
    connection: &mut SqliteConnection,
    queues: &[QueueName],
    now: i64,
    max: i64,
) -> Result<Vec<Deliverable>, Fault> {
    let mut rows = Vec::new();
    for queue in queues {
        rows.extend(deliveries::to_deliver(connection, queue, now, max)?);
    }
    rows.sort_by_key(|row| row.id);
    rows.truncate(usize::try_from(max).unwrap_or(usize::MAX));
    Ok(rows)
}

fn failed(fault: Fault) -> QueueError {
    QueueError(StoreError::from(fault).to_string())
}
