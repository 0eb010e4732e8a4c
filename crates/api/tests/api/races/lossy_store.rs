//! A store that loses the reply to a change: a real one, whose caller learns nothing of one change of its own, while
//! something else happens to the rows. Must not answer anything by itself.

use async_trait::async_trait;
use counterstep_contracts::{Epoch, TaskId, Tenant};
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::ports::{
    ChainRow, ChainTip, ChildLine, ChildQuery, CommitError, Committed, Count, Counted,
    DocumentKind, DocumentQuery, DocumentWrite, Documents, DocumentsPut, EndedTask, Find,
    Heartbeat, IdempotencyRow, JournalPage, LoadFor, LoadedTask, LogRow, LogWrite, Logs, OutboxOp,
    OutboxRow, PlaceQuery, PlaceRow, PurgeOp, ReceiveOp, Receives, Relatives, Revisions,
    RevisionsOf, Storage, StoreError, TaskHead, TaskList, TaskPage, Touch, Touched, Upkeep,
};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// What becomes of a change whose reply is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Written,
    NeverWritten,
    /// It is written after what happens between, and the reply arrives.
    Delayed,
}

/// What happens before the caller looks again.
pub(crate) type Between = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

struct Loss {
    /// Changes before it that are answered.
    after: usize,
    fate: Fate,
    between: Between,
}

/// Loses the replies that it is told to.
pub(crate) struct LossyStore {
    inner: Arc<dyn Storage>,
    next: Mutex<Option<Loss>>,
}

impl fmt::Debug for LossyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LossyStore").finish_non_exhaustive()
    }
}

impl LossyStore {
    pub(crate) fn new(inner: Arc<dyn Storage>) -> Self {
        let next = Mutex::default();
        Self { inner, next }
    }

    /// Loses the reply to the change that follows `after` others.
    pub(crate) fn lose(&self, after: usize, fate: Fate, between: Between) {
        let loss = Loss {
            after,
            fate,
            between,
        };
        *self.lock() = Some(loss);
    }

    /// Whether a reply is still to be lost; none is from now on.
    pub(crate) fn relent(&self) -> bool {
        self.lock().take().is_some()
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Option<Loss>> {
        self.next.lock()
    }

    fn loss(&self) -> Option<Loss> {
        let mut next = self.lock();
        match next.as_mut() {
            Some(loss) if loss.after > 0 => {
                loss.after -= 1;
                None
            }
            _ => next.take(),
        }
    }

    async fn change<T, E: From<StoreError>>(
        &self,
        change: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let Some(loss) = self.loss() else {
            return change.await;
        };
        match loss.fate {
            Fate::Delayed => {
                (loss.between)().await;
                return change.await;
            }
            // What is refused is not written, and its caller may know.
            Fate::Written => drop(change.await?),
            Fate::NeverWritten => {}
        }
        (loss.between)().await;
        Err(StoreError::Unknown("the reply was lost".to_owned()).into())
    }
}

#[async_trait]
impl Storage for LossyStore {
    async fn commit(
        &self,
        guard: Guard,
        changes: &[&Transition],
    ) -> Result<Committed, CommitError> {
        self.change(self.inner.commit(guard, changes)).await
    }

    async fn put(&self, writes: &[DocumentWrite]) -> Result<DocumentsPut, StoreError> {
        match writes {
            // That this process is alive.
            [write] if write.kind == DocumentKind::Worker => self.inner.put(writes).await,
            _ => self.change(self.inner.put(writes)).await,
        }
    }

    async fn load(
        &self,
        tasks: &[TaskId],
        purpose: LoadFor,
    ) -> Result<Vec<LoadedTask>, StoreError> {
        self.inner.load(tasks, purpose).await
    }

    async fn heartbeat(
        &self,
        task: TaskId,
        epoch: Epoch,
        ttl: Duration,
    ) -> Result<Heartbeat, StoreError> {
        self.inner.heartbeat(task, epoch, ttl).await
    }

    async fn find(&self, what: &Find, limit: u32) -> Result<Vec<TaskHead>, StoreError> {
        self.inner.find(what, limit).await
    }

    async fn touch(&self, touch: &Touch) -> Result<Vec<Touched>, StoreError> {
        self.inner.touch(touch).await
    }

    async fn relatives(&self, of: &Relatives<'_>) -> Result<Vec<TaskId>, StoreError> {
        self.inner.relatives(of).await
    }

    async fn list(&self, what: &TaskList<'_>) -> Result<TaskPage, StoreError> {
        self.inner.list(what).await
    }

    async fn count(&self, what: Count) -> Result<Counted, StoreError> {
        self.inner.count(what).await
    }

    async fn journal(&self, page: &JournalPage) -> Result<Vec<ChainRow>, StoreError> {
        self.inner.journal(page).await
    }

    async fn chain_tips(&self, page: &JournalPage) -> Result<Vec<ChainTip>, StoreError> {
        self.inner.chain_tips(page).await
    }

    async fn revisions(&self, of: &RevisionsOf) -> Result<Revisions, StoreError> {
        self.inner.revisions(of).await
    }

    async fn outbox(&self, op: OutboxOp) -> Result<Vec<OutboxRow>, StoreError> {
        self.inner.outbox(op).await
    }

    async fn idempotency(
        &self,
        tenant: &Tenant,
        key: &str,
    ) -> Result<Option<IdempotencyRow>, StoreError> {
        self.inner.idempotency(tenant, key).await
    }

    async fn documents(&self, query: &DocumentQuery) -> Result<Documents, StoreError> {
        self.inner.documents(query).await
    }

    async fn children(&self, query: &ChildQuery) -> Result<Vec<ChildLine>, StoreError> {
        self.inner.children(query).await
    }

    async fn places(&self, query: &PlaceQuery) -> Result<Vec<PlaceRow>, StoreError> {
        self.inner.places(query).await
    }
}

#[async_trait]
impl Upkeep for LossyStore {
    async fn receives(&self, op: &ReceiveOp) -> Result<Receives, StoreError> {
        self.inner.receives(op).await
    }

    async fn purge(&self, op: &PurgeOp) -> Result<Vec<EndedTask>, StoreError> {
        self.inner.purge(op).await
    }
}

#[async_trait]
impl Logs for LossyStore {
    async fn log(&self, task: TaskId) -> Result<Vec<LogRow>, StoreError> {
        self.inner.log(task).await
    }

    async fn write_log(&self, write: &LogWrite) -> Result<(), StoreError> {
        self.inner.write_log(write).await
    }
}
