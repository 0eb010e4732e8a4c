//! The queue on the outbox rows. (Being written.)

use crate::sqlite::Database;
use async_trait::async_trait;
use counterstep_contracts::{QueueName, WorkerMessage};
use counterstep_kernel::ports::{Delivery, DeliveryTag, Queue, QueueError, Settle};
use std::time::Duration;

/// How the queue waits.
#[derive(Debug, Clone)]
pub struct QueueOptions {
    /// After this long without a settlement a message is delivered again.
    pub ack_wait: Duration,
    /// How often an idle fetch looks for messages of other processes.
    pub poll: Duration,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { ack_wait: Duration::from_secs(30), poll: Duration::from_millis(200) }
    }
}

/// The queue on the outbox rows of a database file.
#[derive(Debug, Clone)]
pub struct LocalQueue {}

impl LocalQueue {
    /// On the same connections as the store.
    #[must_use]
    pub fn new(_database: Database, _options: QueueOptions) -> Self {
        Self {}
    }
}

#[async_trait]
impl Queue for LocalQueue {
    async fn publish(&self, _queue: &QueueName, _message: &WorkerMessage) -> Result<(), QueueError> {
        Err(QueueError("not written yet".to_owned()))
    }
    async fn fetch(&self, _queues: &[QueueName], _max: usize, _wait: Duration) -> Result<Vec<Delivery>, QueueError> {
        Err(QueueError("not written yet".to_owned()))
    }
    async fn settle(&self, _tag: &DeliveryTag, _settle: Settle) -> Result<(), QueueError> {
        Err(QueueError("not written yet".to_owned()))
    }
    fn reads_the_outbox(&self) -> bool {
        true
    }
}
