//! A store with something around its calls: a count, a delay, a lost answer. The store below is a real one, and answers.

use async_trait::async_trait;
use counterstep_contracts::{Epoch, TaskId, Tenant};
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::ports::{
    ChainRow, ChainTip, ChildLine, ChildQuery, CommitError, Committed, Count, Counted,
    DocumentQuery, DocumentWrite, Documents, DocumentsPut, EndedTask, Find, Heartbeat,
    IdempotencyRow, JournalPage, LoadFor, LoadedTask, LogRow, LogWrite, Logs, OutboxOp, OutboxRow,
    PlaceQuery, PlaceRow, PurgeOp, ReceiveOp, Receives, Relatives, Revisions, RevisionsOf, Storage,
    StoreError, TaskHead, TaskList, TaskPage, Touch, Touched, Upkeep,
};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// What happens around the calls of a store. Each is answered by the store itself, unless this says otherwise.
#[async_trait]
pub trait Around: Debug + Send + Sync + 'static {
    /// Around a call, by the name of its method. The call happens when `call` is polled.
    async fn call<T: Send>(
        &self,
        _name: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        call.await
    }

    /// Around a change of a task.
    async fn commit(
        &self,
        store: &dyn Storage,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        store.commit(guard, changes).await
    }

    /// Around a look at tasks.
    async fn load(
        &self,
        store: &dyn Storage,
        tasks: &[TaskId],
        purpose: LoadFor,
    ) -> Result<Vec<LoadedTask>, StoreError> {
        self.call("load", store.load(tasks, purpose)).await
    }

    /// Around a heartbeat.
    async fn heartbeat(
        &self,
        store: &dyn Storage,
        task: TaskId,
        epoch: Epoch,
        ttl: Duration,
    ) -> Result<Heartbeat, StoreError> {
        self.call("heartbeat", store.heartbeat(task, epoch, ttl))
            .await
    }

    /// Around a look at documents.
    async fn documents(
        &self,
        store: &dyn Storage,
        query: &DocumentQuery,
    ) -> Result<Documents, StoreError> {
        self.call("documents", store.documents(query)).await
    }

    /// Around a write of documents.
    async fn put(
        &self,
        store: &dyn Storage,
        writes: &[DocumentWrite],
    ) -> Result<DocumentsPut, StoreError> {
        self.call("put", store.put(writes)).await
    }
}

/// A store with something around it.
#[derive(Debug)]
pub struct Through<A> {
    store: Arc<dyn Storage>,
    /// What is around it.
    pub around: A,
}

impl<A: Around> Through<A> {
    /// Around this store.
    pub fn new(store: Arc<dyn Storage>, around: A) -> Self {
        Self { store, around }
    }
}

#[async_trait]
impl<A: Around> Storage for Through<A> {
    async fn commit(
        &self,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        self.around.commit(&*self.store, guard, changes).await
    }

    async fn put(&self, writes: &[DocumentWrite]) -> Result<DocumentsPut, StoreError> {
        self.around.put(&*self.store, writes).await
    }

    async fn load(
        &self,
        tasks: &[TaskId],
        purpose: LoadFor,
    ) -> Result<Vec<LoadedTask>, StoreError> {
        self.around.load(&*self.store, tasks, purpose).await
    }

    async fn heartbeat(
        &self,
        task: TaskId,
        epoch: Epoch,
        ttl: Duration,
    ) -> Result<Heartbeat, StoreError> {
        self.around.heartbeat(&*self.store, task, epoch, ttl).await
    }

    async fn find(&self, what: &Find, limit: u32) -> Result<Vec<TaskHead>, StoreError> {
        self.around.call("find", self.store.find(what, limit)).await
    }

    async fn touch(&self, touch: &Touch) -> Result<Vec<Touched>, StoreError> {
        self.around.call("touch", self.store.touch(touch)).await
    }

    async fn relatives(&self, of: &Relatives<'_>) -> Result<Vec<TaskId>, StoreError> {
        self.around
            .call("relatives", self.store.relatives(of))
            .await
    }

    async fn list(&self, what: &TaskList<'_>) -> Result<TaskPage, StoreError> {
        self.around.call("list", self.store.list(what)).await
    }

    async fn count(&self, what: Count) -> Result<Counted, StoreError> {
        self.around.call("count", self.store.count(what)).await
    }

    async fn journal(&self, page: &JournalPage) -> Result<Vec<ChainRow>, StoreError> {
        self.around.call("journal", self.store.journal(page)).await
    }

    async fn chain_tips(&self, page: &JournalPage) -> Result<Vec<ChainTip>, StoreError> {
        self.around
            .call("chain_tips", self.store.chain_tips(page))
            .await
    }

    async fn revisions(&self, of: &RevisionsOf) -> Result<Revisions, StoreError> {
        self.around
            .call("revisions", self.store.revisions(of))
            .await
    }

    async fn outbox(&self, op: OutboxOp) -> Result<Vec<OutboxRow>, StoreError> {
        self.around.call("outbox", self.store.outbox(op)).await
    }

    async fn idempotency(
        &self,
        tenant: &Tenant,
        key: &str,
    ) -> Result<Option<IdempotencyRow>, StoreError> {
        self.around
            .call("idempotency", self.store.idempotency(tenant, key))
            .await
    }

    async fn documents(&self, query: &DocumentQuery) -> Result<Documents, StoreError> {
        self.around.documents(&*self.store, query).await
    }

    async fn children(&self, query: &ChildQuery) -> Result<Vec<ChildLine>, StoreError> {
        self.around
            .call("children", self.store.children(query))
            .await
    }

    async fn places(&self, query: &PlaceQuery) -> Result<Vec<PlaceRow>, StoreError> {
        self.around.call("places", self.store.places(query)).await
    }
}

#[async_trait]
impl<A: Around> Upkeep for Through<A> {
    async fn receives(&self, op: &ReceiveOp) -> Result<Receives, StoreError> {
        self.around.call("receives", self.store.receives(op)).await
    }

    async fn purge(&self, op: &PurgeOp) -> Result<Vec<EndedTask>, StoreError> {
        self.around.call("purge", self.store.purge(op)).await
    }
}

#[async_trait]
impl<A: Around> Logs for Through<A> {
    async fn log(&self, task: TaskId) -> Result<Vec<LogRow>, StoreError> {
        self.around.call("log", self.store.log(task)).await
    }

    async fn write_log(&self, write: &LogWrite) -> Result<(), StoreError> {
        self.around
            .call("write_log", self.store.write_log(write))
            .await
    }
}
