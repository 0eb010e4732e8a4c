//! Redispatch on a real NATS server: streams and consumers that are gone, messages that are lost,
//! and hosts that poll for nothing, so that only redispatch brings the tasks to an end.

mod offers;
mod processes;
mod streams;

use async_nats::jetstream;
use counterstep_adapters::embedded::{self, EmbeddedPaths};
use counterstep_adapters::nats::{Events, Nats, NatsOptions};
use counterstep_contracts::{Host, QueueName, TaskId, TaskStatus};
use counterstep_kernel::ports::{Delivery, Ports, Settle};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::turn::turn;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_reconciler::{ReconcilerSettings, pass};
use counterstep_steps::times::DbTime;
use counterstep_steps::{CancelToken, Registry, RetryPolicy, StepContext, StepError, StepResult};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::servers::shared_nats;
use counterstep_testkit::{Form, TestClock, form};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// Slept through, not waited out: the task is put to sleep.
const SOON: RetryPolicy = RetryPolicy::constant("1100ms").max_retries(1).jitter(false);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    busy: String,
}

struct Errand;

#[distributed_task(name = "Errand", queue = "errands")]
impl Errand {
    type Request = Order;
    type Response = u32;

    #[step(1, host = "worker", retry = SOON, no_undo = "it only looks")]
    async fn look(ctx: &StepContext, order: &Order) -> StepResult<u32> {
        if order.busy == "yes" && ctx.attempt().0 == 1 {
            Err(StepError::transient("busy"))
        } else {
            Ok(1)
        }
    }

    fn respond(look: &u32) -> u32 {
        *look
    }
}

/// An engine on a database of its own and on streams of its own.
struct Scene {
    engine: Engine,
    nats: Nats,
    prefix: String,
    hosts: Vec<JoinHandle<()>>,
    folder: TempDir,
    clock: TestClock,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.hosts.iter().for_each(JoinHandle::abort);
    }
}

async fn ports(folder: &Path, prefix: &str, clock: &TestClock) -> (Ports, Nats) {
    let paths = EmbeddedPaths {
        database: folder.join("tasks.db"),
        objects: folder.join("objects"),
        scratch: folder.join("scratch"),
    };
    let ports = embedded::open(paths, clock.embedded())
        .await
        .expect("the adapters open");
    let mut options = NatsOptions::new(shared_nats().url());
    options.prefix = Some(prefix.to_owned());
    // The watchdog would make a consumer again that is gone: here redispatch is to do it.
    options.silent_after = Duration::from_secs(3600);
    let nats = Nats::open(options).await.expect("NATS opens");
    (
        Ports {
            queue: Arc::new(nats.queue()),
            signals: Arc::new(nats.signals()),
            ..ports
        },
        nats,
    )
}

fn engine_on(ports: Ports, role: &str) -> Engine {
    Engine::new(
        ports,
        Arc::new(Registry::new().with::<Errand>()),
        EngineSettings::default(),
        role,
    )
}

impl Scene {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let prefix = format!("r{:x}", rand::random::<u64>());
        let clock = TestClock::new();
        let (ports, nats) = ports(folder.path(), &prefix, &clock).await;
        nats.prepare(queues(), Events::None)
            .await
            .expect("streams and consumers");
        Self {
            engine: engine_on(ports, "reconciler"),
            nats,
            prefix,
            hosts: Vec::new(),
            folder,
            clock,
        }
    }

    async fn submit(&self, busy: bool) -> TaskId {
        form::submit(
            &self.engine,
            Form::new().field("busy", if busy { "yes" } else { "no" }),
        )
        .await
    }

    /// A host that takes what messages bring, and looks for nothing itself.
    fn hears(&mut self) {
        let engine = self.engine.clone();
        self.hosts.push(tokio::spawn(async move {
            loop {
                let Ok(deliveries) = engine
                    .ports
                    .queue
                    .fetch(&queues(), 8, Duration::from_millis(100))
                    .await
                else {
                    tokio::task::yield_now().await;
                    continue;
                };
                for Delivery { tag, message, .. } in deliveries {
                    let task = message.expect("a message of ours").task;
                    turn(&engine, Host::Worker, task, &CancelToken::new()).await;
                    let _ = engine.ports.queue.settle(&tag, Settle::Ack).await;
                }
            }
        }));
    }

    async fn stream(&self) -> (jetstream::Context, String) {
        let client = async_nats::connect(shared_nats().url())
            .await
            .expect("a client");
        (jetstream::new(client), format!("{}-work", self.prefix))
    }

    async fn record(&self, task: TaskId) -> TaskRecord {
        self.engine
            .ports
            .store
            .load(task)
            .await
            .expect("the store answers")
            .expect("the task")
    }

    async fn until(&self, task: TaskId, status: TaskStatus) {
        eventually(status.as_str(), || async {
            (self.record(task).await.task.status == status).then_some(())
        })
        .await;
    }

    /// Passes until all have completed. Returns what was mended, and how many offers there were.
    async fn pass_until_completed(
        &self,
        tasks: &[TaskId],
        offer_after: Duration,
    ) -> (Vec<String>, usize) {
        let (mended, offered) = (RefCell::new(Vec::new()), Cell::new(0));
        eventually("the end of all tasks", || async {
            let report = pass(&self.engine, &settings(offer_after))
                .await
                .expect("a pass");
            mended.borrow_mut().extend(report.mended);
            offered.set(offered.get() + report.offered);
            for task in tasks {
                if self.record(*task).await.task.status != TaskStatus::Completed {
                    return None;
                }
            }
            Some(())
        })
        .await;
        (mended.into_inner(), offered.get())
    }

    /// When it was offered again, in order.
    async fn offers(&self, task: TaskId) -> Vec<DbTime> {
        let history = self
            .engine
            .ports
            .store
            .history(task)
            .await
            .expect("the store answers");
        history
            .audit
            .iter()
            .filter(|row| row.entry.event == "offered_again")
            .map(|row| row.at)
            .collect()
    }
}

fn queues() -> Vec<QueueName> {
    vec![
        QueueName("errands".to_owned()),
        QueueName("errands".to_owned()).backlog(),
        QueueName("errands.api".to_owned()),
    ]
}

fn settings(offer_after: Duration) -> ReconcilerSettings {
    ReconcilerSettings {
        offer_after,
        ..ReconcilerSettings::default()
    }
}

const SHORT: Duration = Duration::from_millis(200);
const NEVER: Duration = Duration::from_secs(3600);
