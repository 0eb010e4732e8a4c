//! What the engine keeps as documents: schedules, disabled task types, API keys, the worker registry, saved views,
//! and the progress of listings. Owns their JSON. Must not know how a store keeps them.

mod api_keys;
mod body;
mod edit;
mod listings;
mod schedules;
mod types;
mod views;
mod worker_activity;
mod workers;

pub use listings::{ListingOp, ListingTurn};
pub use schedules::write as schedule_write;
pub use views::{ViewError, delete_view, set_view, view, views};

use crate::ports::{
    ApiKeyRow, ApiKeyRows, DocumentKind, ScheduleQuery, ScheduleRow, Schedules, Store, StoreError,
    TypeRow, TypeRows, WorkerRow, Workers,
};
use crate::record::DbTime;
pub(crate) use api_keys::{read as read_api_key, write as api_key_write};
pub(crate) use edit::{Edit, busy, edit};
pub(crate) use schedules::readable as readable_schedule;
pub(crate) use types::{read as read_type, write as type_write};

pub(crate) use body::{delete, named, postponed};
pub(crate) use body::{read_body as read_document, write_body as write_document};
use counterstep_contracts::{Rev, Tenant};
use std::time::Duration;

/// The typed documents of a store.
impl Store {
    /// Schedules, and the time at which they were read. One that cannot be read is left out and
    /// logged.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn schedules(&self, query: &ScheduleQuery) -> Result<Schedules, StoreError> {
        schedules::find(self, query).await
    }

    /// Writes a schedule that is at the revision before `row.rev`; 1 makes a new one. `false`: it
    /// was changed meanwhile, or is gone, and nothing was written. A firing is part of a
    /// [`commit`](Store::commit).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn put_schedule(&self, row: &ScheduleRow) -> Result<bool, StoreError> {
        Ok(self.put_document(&schedule_write(row)?).await?.is_some())
    }

    /// Deletes a schedule that is at this revision. `false`: it is not.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn delete_schedule(
        &self,
        tenant: &Tenant,
        name: &str,
        rev: Rev,
    ) -> Result<bool, StoreError> {
        let deleted = delete(DocumentKind::Schedule, tenant.clone(), name.to_owned(), rev);
        Ok(self.put_document(&deleted).await?.is_some())
    }

    /// The task types that were ever disabled, by name, and the time at which they were read.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn types(&self) -> Result<TypeRows, StoreError> {
        types::all(self).await
    }

    /// Writes the row of a task type that is at the revision before; 1 makes a new one. `false`: it
    /// is not, and nothing was written.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn put_type(&self, row: &TypeRow) -> Result<bool, StoreError> {
        Ok(self.put_document(&type_write(row)?).await?.is_some())
    }

    /// The API key of this id, where there is one, and the time at which it was read.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn api_key(&self, id: &str) -> Result<ApiKeyRows, StoreError> {
        api_keys::find(self, id).await
    }

    /// All API keys, the last changed first. One that cannot be read is left out and logged.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn api_keys(&self) -> Result<ApiKeyRows, StoreError> {
        api_keys::all(self).await
    }

    /// Writes an API key that is at the revision before; 1 makes a new one. `false`: it is not, and
    /// nothing was written.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn put_api_key(&self, row: &ApiKeyRow) -> Result<bool, StoreError> {
        Ok(self.put_document(&api_key_write(row)?).await?.is_some())
    }

    /// The worker registry: the last seen first, at most
    /// [`WORKERS_READ`](crate::ports::WORKERS_READ). A row that cannot be read is left out and
    /// logged.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn workers(&self) -> Result<Workers, StoreError> {
        workers::all(self).await
    }

    /// Writes a process's own row in the registry. Returns the database's now.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn refresh_worker(&self, row: &WorkerRow) -> Result<DbTime, StoreError> {
        workers::refresh(self, row).await
    }

    /// Deletes rows of the registry that have still not been refreshed for `unseen_for`. Returns how many.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn forget_workers(
        &self,
        ids: &[String],
        unseen_for: Duration,
    ) -> Result<u64, StoreError> {
        workers::forget(self, ids, unseen_for).await
    }

    /// Takes or keeps the turn to list; `None`: it is not the caller's.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn listing(&self, op: &ListingOp) -> Result<Option<ListingTurn>, StoreError> {
        listings::work(self, op).await
    }
}
