//! The PostgreSQL store: the suite, and what only this database can be asked.

use crate::embedded;
use async_trait::async_trait;
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::QueueName;
use counterstep_kernel::ports::{Delivery, DeliveryTag, Ports, Queue, QueueError, Settle};
use counterstep_testkit::servers::shared_postgres;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Nobody is told anything: the store is asked, not the queue beside it.
#[derive(Debug)]
struct NoQueue;

#[async_trait]
impl Queue for NoQueue {
    async fn publish(&self, _: &QueueName, _: &counterstep_contracts::WorkerMessage) -> Result<(), QueueError> {
        Ok(())
    }

    async fn fetch(&self, _: &[QueueName], _: usize, wait: Duration) -> Result<Vec<Delivery>, QueueError> {
        tokio::time::sleep(wait).await;
        Ok(Vec::new())
    }

    async fn settle(&self, _: &DeliveryTag, _: Settle) -> Result<(), QueueError> {
        Ok(())
    }
}

/// A database of its own with the schema in it, and the embedded ports around its store.
pub(crate) struct Fixture {
    pub(crate) ports: Ports,
    #[expect(dead_code, reason = "for the tests of this database")]
    pub(crate) url: String,
    _folder: TempDir,
}

/// Few connections each, since the tests of a binary run side by side on one server.
pub(crate) fn options() -> PostgresOptions {
    PostgresOptions { connections: 6, ..PostgresOptions::default() }
}

pub(crate) async fn fixture() -> Fixture {
    let url = shared_postgres().database();
    PostgresStore::migrate(&url, &options()).await.expect("a schema");
    let store = PostgresStore::open(&url, options()).await.expect("a store");
    let embedded = embedded::fixture().await;
    let ports = Ports { store: Arc::new(store), queue: Arc::new(NoQueue), ..embedded.ports };
    Fixture { ports, url, _folder: embedded.folder }
}

crate::store_cases!(crate::postgres::fixture);
