//! The engine in this process, without HTTP: submissions and a worker around one store, counted at
//! the store.

use crate::failed::Failed;
use crate::load::Client;
use crate::work;
use async_trait::async_trait;
use counterstep_contracts::{Labels, QueueName, TaskId, Tenant, WorkerMessage};
use counterstep_kernel::Engine;
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::client::{Submission, UploadSession};
use counterstep_kernel::ports::{
    CommitError, Committed, Delivery, DeliveryTag, DocumentKind, DocumentWrite, DocumentsPut,
    MessageSource, Queue, QueueError, Settle, Storage, StoreError,
};
use counterstep_steps::{CancelReason, CancelToken};
use counterstep_testkit::through::{Around, Through};
use counterstep_worker::WorkerSettings;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// A store that counts what it is asked, and knows who waits for which task.
#[derive(Debug, Default)]
pub(crate) struct Counted {
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
}

#[async_trait]
impl Around for Counted {
    async fn call<T: Send>(
        &self,
        _: &'static str,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.others.fetch_add(1, Ordering::Relaxed);
        call.await
    }

    async fn commit(
        &self,
        store: &dyn Storage,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        self.commits.fetch_add(1, Ordering::Relaxed);
        let committed = store.commit(guard, changes).await?;
        let is_at_rest = |change: &&Arc<Transition>| {
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

    async fn put(
        &self,
        store: &dyn Storage,
        writes: &[DocumentWrite],
    ) -> Result<DocumentsPut, StoreError> {
        // A process writes its row in the worker registry every few seconds: no task costs it.
        match writes {
            [write] if write.kind == DocumentKind::Worker => store.put(writes).await,
            _ => self.call("put", store.put(writes)).await,
        }
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
    pub(crate) counted: Arc<Through<Counted>>,
    shutdown: CancelToken,
    worker: tokio::task::JoinHandle<()>,
}

/// Starts the worker of an engine whose store is counted from now on.
pub(crate) fn start(mut engine: Engine) -> Running {
    let (store, counted) = engine
        .ports
        .store
        .through(|store| Through::new(store, Counted::default()));
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
                    .around
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
