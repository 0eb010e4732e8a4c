//! The engine in this process, without HTTP: submissions and a worker around one store, counted at
//! the store.

use crate::failed::Failed;
use crate::load::Client;
use crate::work;
use async_trait::async_trait;
use counterstep_contracts::{Epoch, Labels, QueueName, TaskId, Tenant, WorkerMessage};
use counterstep_kernel::Engine;
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::client::{Submission, UploadSession};
use counterstep_kernel::ports::{
    self, ChainRow, ChainTip, ChildLine, ChildQuery, CommitError, Committed, Count, Delivery,
    DeliveryTag, DocumentKind, DocumentQuery, DocumentWrite, Documents, DocumentsPut, EndedTask,
    Find, Heartbeat, IdempotencyRow, JournalPage, LoadFor, LoadedTask, LogRow, LogWrite, Logs,
    MessageSource, OutboxOp, OutboxRow, PlaceQuery, PlaceRow, PurgeOp, Queue, QueueError,
    ReceiveOp, Receives, Relatives, Revisions, RevisionsOf, Settle, Storage, StoreError, TaskHead,
    TaskList, TaskPage, Touch, Touched, Upkeep,
};
use counterstep_steps::{CancelReason, CancelToken};
use counterstep_worker::WorkerSettings;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// A store that counts what it is asked, and knows who waits for which task.
#[derive(Debug)]
pub(crate) struct Counted {
    store: Arc<dyn Storage>,
    commits: AtomicU64,
    others: AtomicU64,
    waiting: Mutex<HashMap<TaskId, oneshot::Sender<()>>>,
    done: Mutex<Vec<TaskId>>,
}

/// Questions to a store.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    pub(crate) commits: u64,
    pub(crate) others: u64,
}

impl Counted {
    pub(crate) fn around(store: Arc<dyn Storage>) -> Self {
        Self {
            store,
            commits: AtomicU64::new(0),
            others: AtomicU64::new(0),
            waiting: Mutex::default(),
            done: Mutex::default(),
        }
    }

    pub(crate) fn asked(&self) -> Asked {
        Asked {
            commits: self.commits.load(Ordering::Relaxed),
            others: self.others.load(Ordering::Relaxed),
        }
    }

    /// Resolves when the task has been committed as at rest. It may have been already: a worker may commit
    /// before the submission is answered.
    fn at_rest(&self, task: TaskId) -> oneshot::Receiver<()> {
        let (to, from) = oneshot::channel();
        // Both locks, in the order in which `commit` takes them.
        let mut done = self.done.lock();
        match done.iter().position(|other| *other == task) {
            Some(at) => {
                done.swap_remove(at);
                let _ = to.send(());
            }
            None => drop(self.waiting.lock().insert(task, to)),
        }
        from
    }

    fn count(&self) -> &dyn Storage {
        self.others.fetch_add(1, Ordering::Relaxed);
        self.store.as_ref()
    }
}

#[async_trait]
impl Storage for Counted {
    async fn load(
        &self,
        tasks: &[TaskId],
        purpose: LoadFor,
    ) -> Result<Vec<LoadedTask>, StoreError> {
        self.count().load(tasks, purpose).await
    }

    async fn commit(
        &self,
        guard: Guard,
        changes: &[&Transition],
    ) -> Result<Committed, CommitError> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        let committed = self.store.commit(guard, changes).await?;
        let is_at_rest = |change: &&&Transition| {
            let task = change.task.as_ref();
            task.is_some_and(|task| task.row.status.is_at_rest())
        };
        for transition in changes.iter().filter(is_at_rest) {
            let mut done = self.done.lock();
            match self.waiting.lock().remove(&transition.task_id) {
                Some(waiting) => drop(waiting.send(())),
                None => done.push(transition.task_id),
            }
        }
        Ok(committed)
    }

    async fn heartbeat(
        &self,
        task: TaskId,
        epoch: Epoch,
        ttl: Duration,
    ) -> Result<Heartbeat, StoreError> {
        self.count().heartbeat(task, epoch, ttl).await
    }

    async fn find(&self, what: &Find, limit: u32) -> Result<Vec<TaskHead>, StoreError> {
        self.count().find(what, limit).await
    }

    async fn touch(&self, touch: &Touch) -> Result<Vec<Touched>, StoreError> {
        self.count().touch(touch).await
    }

    async fn relatives(&self, of: &Relatives<'_>) -> Result<Vec<TaskId>, StoreError> {
        self.count().relatives(of).await
    }

    async fn list(&self, what: &TaskList<'_>) -> Result<TaskPage, StoreError> {
        self.count().list(what).await
    }

    async fn count(&self, what: Count) -> Result<ports::Counted, StoreError> {
        self.count().count(what).await
    }

    async fn journal(&self, page: &JournalPage) -> Result<Vec<ChainRow>, StoreError> {
        self.count().journal(page).await
    }

    async fn chain_tips(&self, page: &JournalPage) -> Result<Vec<ChainTip>, StoreError> {
        self.count().chain_tips(page).await
    }

    async fn revisions(&self, of: &RevisionsOf) -> Result<Revisions, StoreError> {
        self.count().revisions(of).await
    }

    async fn outbox(&self, op: OutboxOp) -> Result<Vec<OutboxRow>, StoreError> {
        self.count().outbox(op).await
    }

    async fn idempotency(
        &self,
        tenant: &Tenant,
        key: &str,
    ) -> Result<Option<IdempotencyRow>, StoreError> {
        self.count().idempotency(tenant, key).await
    }

    async fn children(&self, query: &ChildQuery) -> Result<Vec<ChildLine>, StoreError> {
        self.count().children(query).await
    }

    async fn places(&self, query: &PlaceQuery) -> Result<Vec<PlaceRow>, StoreError> {
        self.count().places(query).await
    }

    async fn documents(&self, query: &DocumentQuery) -> Result<Documents, StoreError> {
        self.count().documents(query).await
    }

    async fn put(&self, writes: &[DocumentWrite]) -> Result<DocumentsPut, StoreError> {
        // A process writes its row in the worker registry every few seconds: no task costs it.
        match writes {
            [write] if write.kind == DocumentKind::Worker => self.store.put(writes).await,
            _ => self.count().put(writes).await,
        }
    }
}

#[async_trait]
impl Logs for Counted {
    async fn log(&self, task: TaskId) -> Result<Vec<LogRow>, StoreError> {
        self.count().log(task).await
    }

    async fn write_log(&self, write: &LogWrite) -> Result<(), StoreError> {
        self.count().write_log(write).await
    }
}

#[async_trait]
impl Upkeep for Counted {
    async fn receives(&self, op: &ReceiveOp) -> Result<Receives, StoreError> {
        self.count().receives(op).await
    }

    async fn purge(&self, op: &PurgeOp) -> Result<Vec<EndedTask>, StoreError> {
        self.count().purge(op).await
    }
}

/// A queue in memory: what is measured is the engine and its store.
#[derive(Debug, Default)]
pub(crate) struct MemoryQueue {
    messages: Mutex<VecDeque<(QueueName, WorkerMessage)>>,
    arrived: Notify,
}

impl MemoryQueue {
    fn take(&self, queues: &[QueueName], max: usize) -> Vec<Delivery> {
        let mut messages = self.messages.lock();
        let mut taken = Vec::new();
        let mut left = VecDeque::with_capacity(messages.len());
        for (queue, message) in messages.drain(..) {
            if taken.len() < max && queues.contains(&queue) {
                let tag = DeliveryTag(String::new());
                let source = MessageSource::default();
                taken.push(Delivery {
                    tag,
                    queue,
                    source,
                    is_first: true,
                    message: Ok(message),
                });
            } else {
                left.push_back((queue, message));
            }
        }
        *messages = left;
        taken
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn publish(&self, queue: &QueueName, message: &WorkerMessage) -> Result<(), QueueError> {
        let mut messages = self.messages.lock();
        messages.push_back((queue.clone(), message.clone()));
        drop(messages);
        self.arrived.notify_one();
        Ok(())
    }

    async fn fetch(
        &self,
        queues: &[QueueName],
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, QueueError> {
        let taken = self.take(queues, max);
        if !taken.is_empty()
            || tokio::time::timeout(wait, self.arrived.notified())
                .await
                .is_err()
        {
            return Ok(taken);
        }
        Ok(self.take(queues, max))
    }

    /// A message that comes to nothing is found again by the poll for due tasks.
    async fn settle(&self, _: &DeliveryTag, _: Settle) -> Result<(), QueueError> {
        Ok(())
    }
}

/// An engine under measurement, with its worker running.
pub(crate) struct Running {
    pub(crate) client: Client,
    pub(crate) counted: Arc<Counted>,
    shutdown: CancelToken,
    worker: tokio::task::JoinHandle<()>,
}

/// Starts the worker of an engine whose store is counted from now on.
pub(crate) fn start(mut engine: Engine) -> Running {
    let (store, counted) = engine.ports.store.through(Counted::around);
    engine.ports.store = store;
    let shutdown = CancelToken::new();
    let worker = counterstep_worker::serve(
        engine.clone(),
        WorkerSettings::default(),
        shutdown.clone(),
        counterstep_node::spawner(),
    );
    let worker = tokio::spawn(worker);
    let client: Client = {
        let counted = counted.clone();
        Arc::new(move || {
            let (engine, counted) = (engine.clone(), counted.clone());
            Box::pin(async move {
                let task = submit(&engine).await?;
                counted
                    .at_rest(task)
                    .await
                    .map_err(|_| Failed("the engine ended".to_owned()))
            })
        })
    };
    Running {
        client,
        counted,
        shutdown,
        worker,
    }
}

impl Running {
    pub(crate) async fn stop(self) {
        self.shutdown.cancel(CancelReason::Shutdown);
        let _ = self.worker.await;
    }
}

async fn submit(engine: &Engine) -> Result<TaskId, Failed> {
    let task_type = *engine
        .registry
        .iter()
        .find(|it| it.decl.name == "Bench")
        .ok_or_else(|| Failed("no task type".to_owned()))?;
    let submission = Submission {
        tenant: Tenant::default(),
        actor: "client".to_owned(),
        key: None,
        traceparent: None,
        webhook: None,
        labels: Labels::new(),
    };
    let failed = |error: counterstep_kernel::client::SubmitError| Failed(error.to_string());
    let mut session = UploadSession::begin(engine, task_type, submission)
        .await
        .map_err(failed)?;
    session.body(work::request()).map_err(failed)?;
    Ok(session.submit().await.map_err(failed)?.answer.task_id)
}
