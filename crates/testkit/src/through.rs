//! A store with something around its calls: a count, a delay, a lost answer. The store below is a real one, and answers.

use async_trait::async_trait;
use counterstep_contracts::{Epoch, TaskId, Tenant};
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::ports::{
    ChainRow, ChainTip, ChildCount, ChildLine, ChildQuery, CommitError, Committed, DocumentQuery,
    DocumentWrite, Documents, DocumentsPut, EndedTask, FailureQuery, Find, Flow, FlowQuery, Gauges,
    Heartbeat, IdempotencyRow, InFlight, JournalPage, LoadFor, LoadedTask, LogRow, LogWrite, Logs,
    OutboxOp, OutboxRow, PlaceCount, PlaceQuery, PlaceRow, PurgeOp, ReceiveOp, Receives, Relatives,
    Revisions, RevisionsOf, Storage, StoreError, TaskHead, TaskList, TaskPage, Touch, Touched,
    Upkeep, WaitingQuery,
};
use counterstep_steps::times::DbTime;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// What happens around the calls of a store. Each is answered by the store itself, unless this says otherwise.
#[async_trait]
pub trait Around: Debug + Send + Sync + 'static {
    /// Around a call, by the name of its method. The call happens when `call` is polled.
    async fn call<T: Send>(
        &self,
        name: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError>;

    /// Around a change of a task.
    async fn commit(
        &self,
        store: &dyn Storage,
        guard: Guard,
        changes: &[&Transition],
    ) -> Result<Committed, CommitError>;

    /// Around a look at tasks.
    async fn load(
        &self,
        store: &dyn Storage,
        tasks: &[TaskId],
        purpose: LoadFor,
    ) -> Result<Vec<LoadedTask>, StoreError> {
        self.call("load", store.load(tasks, purpose)).await
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
        changes: &[&Transition],
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
        self.around
            .call("heartbeat", self.store.heartbeat(task, epoch, ttl))
            .await
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

    async fn reserved_until(&self, task: TaskId) -> Result<Option<DbTime>, StoreError> {
        self.around
            .call("reserved_until", self.store.reserved_until(task))
            .await
    }

    async fn list(&self, what: &TaskList<'_>) -> Result<TaskPage, StoreError> {
        self.around.call("list", self.store.list(what)).await
    }

    async fn in_flight(&self) -> Result<Vec<InFlight>, StoreError> {
        self.around.call("in_flight", self.store.in_flight()).await
    }

    async fn gauges(&self, labels: &[String]) -> Result<Gauges, StoreError> {
        self.around.call("gauges", self.store.gauges(labels)).await
    }

    async fn flow(&self, query: &FlowQuery) -> Result<Flow, StoreError> {
        self.around.call("flow", self.store.flow(query)).await
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
        self.around
            .call("documents", self.store.documents(query))
            .await
    }

    async fn child_counts(&self, parent: TaskId) -> Result<Vec<ChildCount>, StoreError> {
        self.around
            .call("child_counts", self.store.child_counts(parent))
            .await
    }

    async fn children(&self, query: &ChildQuery) -> Result<Vec<ChildLine>, StoreError> {
        self.around
            .call("children", self.store.children(query))
            .await
    }

    async fn places(&self, query: &PlaceQuery) -> Result<Vec<PlaceRow>, StoreError> {
        self.around.call("places", self.store.places(query)).await
    }

    async fn place_counts(
        &self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<PlaceCount>, StoreError> {
        self.around
            .call("place_counts", self.store.place_counts(after, limit))
            .await
    }

    async fn failures(&self, query: &FailureQuery) -> Result<u32, StoreError> {
        self.around
            .call("failures", self.store.failures(query))
            .await
    }

    async fn failing_tenants(
        &self,
        task_type: &str,
        within: Duration,
    ) -> Result<Vec<Tenant>, StoreError> {
        self.around
            .call(
                "failing_tenants",
                self.store.failing_tenants(task_type, within),
            )
            .await
    }

    async fn waiting(&self, query: &WaitingQuery) -> Result<u32, StoreError> {
        self.around.call("waiting", self.store.waiting(query)).await
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
