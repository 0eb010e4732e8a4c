//! Has the results in the spool written down whose turns are gone: at the start of a host those of the process before it, and
//! later those whose turn has ended without them. Decides nothing about a task.

use super::settle::{KeptResult, Settled};
use super::{SpoolKey, Spooling};
use crate::cancel::CancelToken;
use crate::engine::Engine;
use crate::host::Spawn;
use crate::record::{TaskRecord, TaskRow};
use crate::turn::resume;
use crate::workers::worker_registry;
use counterstep_contracts::{Host, TaskId, TaskStatus};
use futures::future::select;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Pause between two reads of the spool, which is nearly always empty and then answers from memory.
const LOOK: Duration = Duration::from_secs(1);

/// More turns than any process has.
const MOST: u32 = 1 << 20;

/// Turns of a host that go on with kept results. They were admitted before, and do not wait for a slot, but take one where there
/// is one: what they hold back is new work.
#[derive(Debug, Clone)]
pub(crate) struct Resumed {
    host: Host,
    slots: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

impl Resumed {
    /// Of a host with these slots.
    pub(crate) fn beside(host: Host, slots: &Arc<Semaphore>) -> Self {
        Self {
            host,
            slots: slots.clone(),
            turns: Arc::new(Semaphore::new(MOST as usize)),
        }
    }

    fn begin(&self) -> [Option<OwnedSemaphorePermit>; 2] {
        [&self.turns, &self.slots].map(|of| of.clone().try_acquire_owned().ok())
    }

    /// Waits until all of them have ended.
    pub(crate) async fn ended(&self) {
        let _ = self.turns.acquire_many(MOST).await;
    }

    /// Looks at all results once.
    pub(crate) async fn take(&self, engine: &Engine, shutdown: &CancelToken, spawn: &Spawn) {
        let Some(spool) = Spooling::of(engine) else {
            return;
        };
        for (task, keys) in by_task(spool).await {
            if shutdown.is_cancelled() {
                return;
            }
            // A turn writes down its own results.
            let Some(runs) = worker_registry::runs_alone(engine, task) else {
                continue;
            };
            let Some((record, results)) = self.to_write(spool, keys).await else {
                continue;
            };
            tracing::info!(%task, results = results.len(), "a turn goes on with results that were kept in the spool");
            let permits = self.begin();
            let (engine, shutdown) = (engine.clone(), shutdown.clone());
            spawn(Box::pin(async move {
                let end = resume(&engine, record, results, &shutdown).await;
                tracing::debug!(%task, ?end, "the turn ended");
                drop((runs, permits));
            }));
        }
    }

    /// Looks at them until `shutdown`.
    pub(crate) async fn take_until(&self, engine: &Engine, shutdown: &CancelToken, spawn: &Spawn) {
        while engine.spool.is_some() && !shutdown.is_cancelled() {
            let pause = engine.ports.clock.sleep(LOOK);
            select(pause, pin!(shutdown.cancelled())).await;
            self.take(engine, shutdown, spawn).await;
        }
    }

    /// Results of one task that a turn of this host is to write down.
    async fn to_write(
        &self,
        spool: Spooling<'_>,
        keys: Vec<SpoolKey>,
    ) -> Option<(TaskRecord, Vec<KeptResult>)> {
        let (mut record, mut results) = (None, Vec::new());
        for key in keys {
            if let Settled::Open(open) = spool.settle(&key).await {
                let (as_read, result) = *open;
                record = Some(as_read);
                results.push(result);
            }
        }
        let is_here =
            |task: &TaskRow| task.host == self.host || task.status == TaskStatus::Compensating;
        record
            .filter(|record: &TaskRecord| is_here(&record.task))
            .map(|record| (record, results))
    }
}

async fn by_task(spool: Spooling<'_>) -> BTreeMap<TaskId, Vec<SpoolKey>> {
    let mut by_task: BTreeMap<TaskId, Vec<SpoolKey>> = BTreeMap::new();
    if spool.spool.stats().entries == 0 {
        return by_task;
    }
    match spool.spool.keys().await {
        Ok(keys) => {
            for key in keys {
                by_task.entry(key.task).or_default().push(key);
            }
        }
        Err(error) => tracing::error!(%error, "the spool cannot be read"),
    }
    by_task
}
