//! The store on one SQLite file. (Being written: opens, answers nothing yet.)

use async_trait::async_trait;
use counterstep_contracts::{Epoch, TaskId, Tenant};
use counterstep_kernel::ports::*;
use counterstep_kernel::record::{History, TaskRecord};
use counterstep_kernel::transition::{Guard, Transition};
use std::path::Path;
use std::time::Duration;

/// How the database file is used.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SqliteOptions {}

/// The file could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {}

/// The connections to one file.
#[derive(Debug, Clone)]
pub struct Database {}

/// The store on one SQLite file.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    database: Database,
}

impl SqliteStore {
    /// Opens a file, makes it where there is none, and brings its schema up to date.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(_path: &Path, _options: SqliteOptions) -> Result<Self, OpenError> {
        Ok(Self { database: Database {} })
    }

    /// The connections, for the queue on the same file.
    #[must_use]
    pub fn database(&self) -> Database {
        self.database.clone()
    }
}

fn not_yet<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable("not written yet".to_owned()))
}

#[async_trait]
impl Store for SqliteStore {
    async fn load(&self, _task: TaskId) -> Result<Option<TaskRecord>, StoreError> {
        not_yet()
    }
    async fn commit(&self, _guard: Guard, _transition: &Transition) -> Result<Committed, CommitError> {
        Ok(not_yet()?)
    }
    async fn heartbeat(&self, _task: TaskId, _epoch: Epoch, _ttl: Duration) -> Result<Heartbeat, StoreError> {
        not_yet()
    }
    async fn due(&self, _due: &Due, _limit: u32) -> Result<Vec<DueTask>, StoreError> {
        not_yet()
    }
    async fn list(&self, _query: &TaskQuery) -> Result<Vec<TaskLine>, StoreError> {
        not_yet()
    }
    async fn history(&self, _task: TaskId) -> Result<History, StoreError> {
        not_yet()
    }
    async fn outbox(&self, _op: OutboxOp) -> Result<Vec<OutboxRow>, StoreError> {
        not_yet()
    }
    async fn intents(&self, _op: IntentOp) -> Result<Vec<Intent>, StoreError> {
        not_yet()
    }
    async fn idempotency(&self, _tenant: &Tenant, _key: &str) -> Result<Option<IdempotencyRow>, StoreError> {
        not_yet()
    }
}
