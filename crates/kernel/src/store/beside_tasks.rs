//! What the store is asked for beside tasks and documents: journals, relations, places, the outbox, logs, and what sweeps
//! need. But for logs it is passed on as it lies in the database: the rows of journals stay encrypted.

use super::Store;
use crate::payloads::decrypt::MissingKey;
use crate::payloads::encrypt::Encrypt;
use crate::payloads::place::Place;
use crate::ports::{
    ChainRow, ChainTip, EndedTask, IdempotencyRow, JournalPage, LogRow, LogWrite, OutboxOp,
    OutboxRow, PlaceQuery, PlaceRow, PurgeOp, ReceiveOp, Receives, Relatives, Revisions,
    RevisionsOf, StoreError,
};
use counterstep_contracts::{TaskId, Tenant};

impl Store {
    /// See [`Storage::journal`](crate::ports::Storage::journal).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn journal(&self, page: &JournalPage) -> Result<Vec<ChainRow>, StoreError> {
        self.storage.journal(page).await
    }

    /// See [`Storage::chain_tips`](crate::ports::Storage::chain_tips).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn chain_tips(&self, page: &JournalPage) -> Result<Vec<ChainTip>, StoreError> {
        self.storage.chain_tips(page).await
    }

    /// See [`Storage::revisions`](crate::ports::Storage::revisions).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn revisions(&self, of: &RevisionsOf) -> Result<Revisions, StoreError> {
        self.storage.revisions(of).await
    }

    /// See [`Storage::outbox`](crate::ports::Storage::outbox).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn outbox(&self, op: OutboxOp) -> Result<Vec<OutboxRow>, StoreError> {
        self.storage.outbox(op).await
    }

    /// See [`Storage::idempotency`](crate::ports::Storage::idempotency).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn idempotency(
        &self,
        tenant: &Tenant,
        key: &str,
    ) -> Result<Option<IdempotencyRow>, StoreError> {
        self.storage.idempotency(tenant, key).await
    }

    /// See [`Relatives::SuccessorsOf`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn successors(
        &self,
        tenant: &Tenant,
        task: TaskId,
    ) -> Result<Vec<TaskId>, StoreError> {
        self.storage
            .relatives(&Relatives::SuccessorsOf(tenant, task))
            .await
    }

    /// See [`Relatives::Above`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn above(&self, tasks: &[TaskId]) -> Result<Vec<TaskId>, StoreError> {
        self.storage.relatives(&Relatives::Above(tasks)).await
    }

    /// See [`Storage::places`](crate::ports::Storage::places).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn places(&self, query: &PlaceQuery) -> Result<Vec<PlaceRow>, StoreError> {
        self.storage.places(query).await
    }

    /// See [`Upkeep::receives`](crate::ports::Upkeep::receives).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn receives(&self, op: &ReceiveOp) -> Result<Receives, StoreError> {
        self.storage.receives(op).await
    }

    /// See [`Upkeep::purge`](crate::ports::Upkeep::purge).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn purge(&self, op: &PurgeOp) -> Result<Vec<EndedTask>, StoreError> {
        self.storage.purge(op).await
    }

    /// See [`Logs::log`](crate::ports::Logs::log).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn log(&self, task: TaskId) -> Result<Vec<LogRow>, StoreError> {
        let mut rows = self.storage.log(task).await?;
        let decrypt = self.decrypt(task, MissingKey::Refused);
        // A row that was erased becomes a text that says so.
        rows.iter_mut()
            .try_for_each(|row| decrypt.text(Place::Log, &mut row.body))?;
        Ok(rows)
    }

    /// See [`Logs::write_log`](crate::ports::Logs::write_log).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn write_log(&self, write: &LogWrite) -> Result<(), StoreError> {
        let Some(codec) = &self.codec else {
            return self.storage.write_log(write).await;
        };
        let mut encrypted = write.clone();
        let encrypt = Encrypt {
            codec: codec.as_ref(),
            tenant: &write.tenant,
            task: write.task,
        };
        encrypt.text(Place::Log, &mut encrypted.row.body)?;
        self.storage.write_log(&encrypted).await
    }
}
