//! A queue that loses every message: which work continues without one, and what was sent?

use async_trait::async_trait;
use counterstep_contracts::{QueueName, WorkerMessage};
use counterstep_kernel::ports::{Delivery, DeliveryTag, Queue, QueueError, Settle};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// Takes each message and delivers none: a task is found by those who look for it. Clones share
/// what was taken.
#[derive(Debug, Clone, Default)]
pub struct LossyQueue(Arc<Mutex<Vec<(QueueName, WorkerMessage)>>>);

impl LossyQueue {
    /// What was published so far, in order.
    #[must_use]
    pub fn lost(&self) -> Vec<(QueueName, WorkerMessage)> {
        self.0.lock().clone()
    }
}

#[async_trait]
impl Queue for LossyQueue {
    async fn publish(&self, queue: &QueueName, message: &WorkerMessage) -> Result<(), QueueError> {
        self.0.lock().push((queue.clone(), message.clone()));
        Ok(())
    }

    async fn fetch(
        &self,
        _: &[QueueName],
        _: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, QueueError> {
        // Nothing ever comes, and the wait has an end.
        let _ = tokio::time::timeout(wait, std::future::pending::<()>()).await;
        Ok(Vec::new())
    }

    async fn settle(&self, _: &DeliveryTag, _: Settle) -> Result<(), QueueError> {
        Ok(())
    }
}
