//! A task that has to run among few and fits nowhere: one process makes room for it, and the others work on.

use crate::errand::only;
use async_trait::async_trait;
use counterstep_adapters::embedded::{self, EmbeddedOptions, EmbeddedPaths};
use counterstep_adapters::sqlite::{MachineClock, SqliteOptions, SystemClocks};
use counterstep_contracts::{Host, QueueName, StepStatus, TaskId, TaskStatus, WorkerMessage};
use counterstep_kernel::host::{HostSettings, serve};
use counterstep_kernel::ports::{Delivery, DeliveryTag, Queue, QueueError, Settle};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::turn::turn;
use counterstep_kernel::{CancelReason, CancelToken, Engine, EngineSettings, StepContext, StepResult};
use counterstep_macros::distributed_task;
use counterstep_testkit::site::eventually;
use counterstep_testkit::{Form, harness};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// A clock whose file ages at once.
#[derive(Debug, Default)]
struct Ages(SystemClocks, AtomicU64);

impl Ages {
    fn by(&self, seconds: u64) {
        self.1.fetch_add(seconds, Ordering::SeqCst);
    }

    fn age(&self) -> Duration {
        Duration::from_secs(self.1.load(Ordering::SeqCst))
    }
}

impl MachineClock for Ages {
    fn calendar(&self) -> Duration {
        self.0.calendar() + self.age()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic() + self.age()
    }
}

/// Loses all messages: each task is found by a look for due ones.
#[derive(Debug)]
struct Silent;

#[async_trait]
impl Queue for Silent {
    async fn publish(&self, _: &QueueName, _: &WorkerMessage) -> Result<(), QueueError> {
        Ok(())
    }

    async fn fetch(&self, _: &[QueueName], _: usize, wait: Duration) -> Result<Vec<Delivery>, QueueError> {
        tokio::time::sleep(wait).await;
        Ok(Vec::new())
    }

    async fn settle(&self, _: &DeliveryTag, _: Settle) -> Result<(), QueueError> {
        Ok(())
    }
}

/// A permit for each rest that may end.
static RESTED: Semaphore = Semaphore::const_new(0);

#[derive(Debug, Serialize, Deserialize)]
struct Guest {
    rests: bool,
}

struct Stay;

#[distributed_task(name = "Stay", queue = "stays", lease = "2s", max_recoveries = 1)]
impl Stay {
    type Request = Guest;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn rest(_ctx: &StepContext, guest: &Guest) -> StepResult<u32> {
        if guest.rests {
            RESTED.acquire().await.expect("it stays open").forget();
        }
        Ok(1)
    }

    fn respond() {}
}

async fn is(engine: &Engine, what: &str, task: TaskId, wanted: impl Fn(&TaskRecord) -> bool) {
    eventually(what, || async {
        let record = engine.ports.store.load(task).await.expect("an answer").expect("the task");
        wanted(&record).then_some(())
    })
    .await;
}

fn runs(record: &TaskRecord) -> bool {
    record.steps[0].status == StepStatus::Running
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_drains_for_a_task_that_fits_nowhere_and_the_others_work_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = EmbeddedPaths {
        database: folder.path().join("counterstep.db"),
        objects: folder.path().join("objects"),
        scratch: folder.path().join("scratch"),
    };
    let clock = Arc::new(Ages::default());
    let sqlite = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
    let mut ports =
        embedded::open(paths, EmbeddedOptions { sqlite, ..EmbeddedOptions::default() }).await.expect("it opens");
    ports.queue = Arc::new(Silent);
    let registry = Arc::new(only::<Stay>());
    let engine = || Engine::new(ports.clone(), registry.clone(), EngineSettings::default(), "worker");
    let submitted = async |rests: bool| harness::submit(&engine(), Form::new().field("rests", rests)).await;

    // A task that has lost as many hosts as it may, and has been ready for a minute since.
    let suspect = submitted(true).await;
    let doomed = engine();
    let lost = tokio::spawn(async move { turn(&doomed, Host::Worker, suspect, &CancelToken::new()).await });
    is(&engine(), "a turn that gets lost", suspect, runs).await;
    lost.abort();
    clock.by(10);
    let plan = engine().plan_recovery(10).await.expect("a plan");
    engine().recover(plan).await;
    is(&engine(), "a loss", suspect, |record| record.task.recovery_attempts == 1).await;
    clock.by(60);

    let spawn: counterstep_kernel::host::Spawn = Arc::new(|future| drop(tokio::spawn(future)));
    let shutdown = CancelToken::new();
    let mut serving = Vec::new();
    for _ in 0..3 {
        // Each has a task that goes on while others would have to wait for its end.
        let process = engine();
        let busy = submitted(true).await;
        let running = process.clone();
        serving.push(tokio::spawn(async move {
            turn(&running, Host::Worker, busy, &CancelToken::new()).await;
        }));
        is(&process, "a busy process", busy, runs).await;
        // One slot: a look for one task that always finds the suspect, as the oldest, would find no other.
        let mut settings = HostSettings::for_all(&registry, Host::Worker, 1);
        (settings.poll, settings.unclaimed_for) = (Duration::from_millis(50), Duration::ZERO);
        serving.push(tokio::spawn(serve(process, settings, shutdown.clone(), spawn.clone())));
    }
    // Each process has looked at the suspect many times once so many have gone past it one after the other.
    for _ in 0..20 {
        let other = submitted(false).await;
        is(&engine(), "a task beside one that drains", other, |record| record.task.status == TaskStatus::Completed)
            .await;
    }
    RESTED.add_permits(4);
    is(&engine(), "the suspect", suspect, |record| record.task.status == TaskStatus::Completed).await;
    shutdown.cancel(CancelReason::Shutdown);
    for ended in serving {
        ended.await.expect("it ends");
    }
}
