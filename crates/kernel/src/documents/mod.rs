//! What the engine keeps as documents: schedules, disabled task types, API keys, the worker registry, and the
//! progress of listings. Owns their JSON. Must not know how a store keeps them.

mod api_keys;
mod body;
mod edit;
mod listings;
mod schedules;
mod types;
mod workers;

pub use listings::{ListingOp, ListingTurn};
pub use schedules::write as schedule_write;

use crate::ports::{
    ApiKeyRow, ApiKeyRows, DocumentKind, ScheduleQuery, ScheduleRow, Schedules, Store, StoreError,
    TypeRow, TypeRows, WorkerRow, Workers,
};
use crate::record::DbTime;
pub(crate) use api_keys::{read as read_api_key, write as api_key_write};
pub(crate) use edit::{Edit, busy, edit};
pub(crate) use schedules::readable as readable_schedule;
pub(crate) use types::write as type_write;

pub(crate) use body::{delete, postponed};
pub(crate) use body::{read_body as read_document, write_body as write_document};
use counterstep_contracts::{Rev, Tenant};
use std::time::Duration;

/// The typed documents of a store.
pub trait TypedDocuments: Store {
    /// Schedules, and the time at which they were read. One that cannot be read is left out and
    /// logged.
    fn schedules(
        &self,
        query: &ScheduleQuery,
    ) -> impl Future<Output = Result<Schedules, StoreError>> + Send {
        schedules::find(self, query)
    }

    /// Writes a schedule that is at the revision before `row.rev`; 1 makes a new one. `false`: it
    /// was changed meanwhile, or is gone, and nothing was written. A firing is part of a
    /// [`commit`](Store::commit).
    fn put_schedule(
        &self,
        row: &ScheduleRow,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        async move { Ok(self.put_document(&schedule_write(row)?).await?.is_some()) }
    }

    /// Deletes a schedule that is at this revision. `false`: it is not.
    fn delete_schedule<'a>(
        &'a self,
        tenant: &'a Tenant,
        name: &'a str,
        rev: Rev,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send + 'a {
        async move {
            let deleted = delete(DocumentKind::Schedule, tenant.clone(), name.to_owned(), rev);
            Ok(self.put_document(&deleted).await?.is_some())
        }
    }

    /// The task types that were ever disabled, by name, and the time at which they were read.
    fn types(&self) -> impl Future<Output = Result<TypeRows, StoreError>> + Send {
        types::all(self)
    }

    /// Writes the row of a task type that is at the revision before; 1 makes a new one. `false`: it
    /// is not, and nothing was written.
    fn put_type(&self, row: &TypeRow) -> impl Future<Output = Result<bool, StoreError>> + Send {
        async move { Ok(self.put_document(&type_write(row)?).await?.is_some()) }
    }

    /// The API key of this id, where there is one, and the time at which it was read.
    fn api_key<'a>(
        &'a self,
        id: &'a str,
    ) -> impl Future<Output = Result<ApiKeyRows, StoreError>> + Send + 'a {
        api_keys::find(self, id)
    }

    /// All API keys, the last changed first. One that cannot be read is left out and logged.
    fn api_keys(&self) -> impl Future<Output = Result<ApiKeyRows, StoreError>> + Send {
        api_keys::all(self)
    }

    /// Writes an API key that is at the revision before; 1 makes a new one. `false`: it is not, and
    /// nothing was written.
    fn put_api_key(
        &self,
        row: &ApiKeyRow,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        async move { Ok(self.put_document(&api_key_write(row)?).await?.is_some()) }
    }

    /// The worker registry: the last seen first, at most
    /// [`WORKERS_READ`](crate::ports::WORKERS_READ). A row that cannot be read is left out and
    /// logged.
    fn workers(&self) -> impl Future<Output = Result<Workers, StoreError>> + Send {
        workers::all(self)
    }

    /// Writes a process's own row in the registry. Returns the database's now.
    fn refresh_worker(
        &self,
        row: &WorkerRow,
    ) -> impl Future<Output = Result<DbTime, StoreError>> + Send {
        workers::refresh(self, row)
    }

    /// Deletes rows of the registry, where they have still not been refreshed for so long. Returns
    /// how many.
    fn forget_workers<'a>(
        &'a self,
        ids: &'a [String],
        unseen_for: Duration,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + 'a {
        workers::forget(self, ids, unseen_for)
    }

    /// Takes or keeps the turn to list; `None`: it is not the caller's.
    fn listing(
        &self,
        op: &ListingOp,
    ) -> impl Future<Output = Result<Option<ListingTurn>, StoreError>> + Send {
        listings::work(self, op)
    }
}

impl<S: Store + ?Sized> TypedDocuments for S {}
