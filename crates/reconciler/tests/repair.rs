//! The repair of dispatch on a real NATS server: streams and consumers that are gone, messages that
//! are lost, and hosts that poll for nothing, so that only the repair brings the tasks to an end.

use async_nats::jetstream;
use counterstep_adapters::embedded::{self, EmbeddedOptions, EmbeddedPaths};
use counterstep_adapters::nats::{Events, Nats, NatsOptions};
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::workers::WorkerState;
use counterstep_contracts::{Host, QueueName, TaskId, TaskStatus};
use counterstep_kernel::ports::{Delivery, Ports, Settle};
use counterstep_kernel::presence::Part;
use counterstep_kernel::record::{DbTime, TaskRecord};
use counterstep_kernel::turn::turn;
use counterstep_kernel::{
    CancelReason, CancelToken, Engine, EngineSettings, Registry, RetryPolicy, StepContext,
    StepError, StepResult,
};
use counterstep_macros::distributed_task;
use counterstep_reconciler::{ReconcilerSettings, Report, pass, plan, serve};
use counterstep_testkit::servers::{shared_nats, shared_postgres};
use counterstep_testkit::{Form, harness};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// What has not happened after this long never will.
const LIMIT: Duration = Duration::from_secs(60);

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
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.hosts.iter().for_each(JoinHandle::abort);
    }
}

async fn ports(folder: &Path, prefix: &str) -> (Ports, Nats) {
    let paths = EmbeddedPaths {
        database: folder.join("tasks.db"),
        objects: folder.join("objects"),
        scratch: folder.join("scratch"),
    };
    let ports = embedded::open(paths, EmbeddedOptions::default())
        .await
        .expect("the adapters open");
    let mut options = NatsOptions::new(shared_nats().url());
    options.prefix = Some(prefix.to_owned());
    // The watchdog would make a consumer again that is gone: here the repair is to do it.
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
        let (ports, nats) = ports(folder.path(), &prefix).await;
        nats.prepare(queues(), Events::None)
            .await
            .expect("streams and consumers");
        Self {
            engine: engine_on(ports, "reconciler"),
            nats,
            prefix,
            hosts: Vec::new(),
            folder,
        }
    }

    async fn submit(&self, busy: bool) -> TaskId {
        harness::submit(
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
                    tokio::time::sleep(Duration::from_millis(20)).await;
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
        let until = Instant::now() + LIMIT;
        while self.record(task).await.task.status != status {
            assert!(
                Instant::now() < until,
                "it is {}",
                self.record(task).await.task.status
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Passes until all have completed. Returns what was mended, and how many offers there were.
    async fn pass_until_completed(
        &self,
        tasks: &[TaskId],
        offer_after: Duration,
    ) -> (Vec<String>, usize) {
        let until = Instant::now() + LIMIT;
        let (mut mended, mut offered) = (Vec::new(), 0);
        loop {
            let report = pass(&self.engine, &settings(offer_after))
                .await
                .expect("a pass");
            mended.extend(report.mended);
            offered += report.offered;
            let mut left = 0;
            for task in tasks {
                left += usize::from(self.record(*task).await.task.status != TaskStatus::Completed);
            }
            if left == 0 {
                return (mended, offered);
            }
            assert!(
                Instant::now() < until,
                "{left} have not completed; mended {mended:?}, {offered} offers"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
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

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_gone_is_made_again_and_its_tasks_are_offered_again() {
    let mut scene = Scene::new().await;
    let mut tasks = Vec::new();
    for _ in 0..10 {
        tasks.push(scene.submit(false).await);
    }
    let (context, name) = scene.stream().await;
    context.delete_stream(&name).await.expect("it was there");
    let planned = plan(&scene.engine, &settings(NEVER))
        .await
        .expect("a plan")
        .to_string();
    for lost in [
        format!("make again the stream `{name}`"),
        "make again the consumer of queue `errands`".to_owned(),
    ] {
        assert!(planned.contains(&lost), "{planned}");
    }
    assert!(
        context.get_stream(&name).await.is_err(),
        "a plan changes nothing"
    );
    scene.hears();
    let (mended, offered) = scene.pass_until_completed(&tasks, SHORT).await;
    assert!(
        mended.contains(&format!("the stream `{name}`")),
        "{mended:?}"
    );
    assert!(offered >= tasks.len(), "{offered} offers");
    for task in tasks {
        let record = scene.record(task).await;
        assert_eq!(
            (record.steps[0].attempts.0, record.task.recovery_attempts),
            (1, 0),
            "nobody was lost"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_a_stream_has_lost_come_again() {
    let mut scene = Scene::new().await;
    let task = scene.submit(false).await;
    let (context, name) = scene.stream().await;
    context
        .get_stream(&name)
        .await
        .expect("the stream")
        .purge()
        .await
        .expect("it is empty");
    scene.hears();
    let (mended, offered) = scene.pass_until_completed(&[task], SHORT).await;
    assert!(
        mended.is_empty() && offered >= 1,
        "{mended:?}, {offered} offers"
    );
    assert_eq!(scene.offers(task).await.len(), offered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_gone_is_made_again_and_brings_what_waits() {
    let mut scene = Scene::new().await;
    let task = scene.submit(false).await;
    let (context, name) = scene.stream().await;
    context
        .delete_consumer_from_stream("errands", &name)
        .await
        .expect("it was there");
    let (mended, offered) = {
        scene.hears();
        scene.pass_until_completed(&[task], NEVER).await
    };
    // Whoever fetches may be faster; then there was nothing to mend.
    assert!(
        mended.is_empty() || mended == ["the consumer of queue `errands`"],
        "{mended:?}"
    );
    assert_eq!(
        (offered, scene.offers(task).await.len()),
        (0, 0),
        "its message was still there"
    );

    // A host that fetches would make it again, too: none does any more.
    for host in scene.hosts.drain(..) {
        host.abort();
        let _ = host.await;
    }
    context
        .delete_consumer_from_stream("errands~api", &name)
        .await
        .expect("it was there");
    let report = pass(&scene.engine, &settings(NEVER)).await.expect("a pass");
    assert_eq!(report.mended, ["the consumer of queue `errands.api`"]);
    assert!(
        report
            .to_string()
            .contains("made again: the consumer of queue `errands.api`"),
        "{report}"
    );
    let found = context.get_stream(&name).await.expect("the stream");
    found
        .consumer_info("errands~api")
        .await
        .expect("it is there again");
    assert_eq!(
        pass(&scene.engine, &settings(NEVER)).await.expect("a pass"),
        Report::default()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_is_due_and_that_nobody_polls_for_is_offered() {
    let mut scene = Scene::new().await;
    scene.hears();
    let task = scene.submit(true).await;
    scene.until(task, TaskStatus::Waiting).await;
    let (_, offered) = scene.pass_until_completed(&[task], SHORT).await;
    assert!(offered >= 1);
    assert_eq!(scene.record(task).await.steps[0].attempts.0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_comes_for_is_offered_less_and_less_often_by_however_many() {
    const AFTER: Duration = Duration::from_millis(50);
    let scene = Scene::new().await;
    let (first, second) = (scene.submit(false).await, scene.submit(false).await);
    let mut passing = Vec::new();
    for number in 0..3 {
        let (ports, nats) = ports(scene.folder.path(), &scene.prefix).await;
        let engine = engine_on(ports, &format!("reconciler{number}"));
        passing.push(tokio::spawn(async move {
            let _nats = nats;
            loop {
                pass(&engine, &settings(AFTER)).await.expect("a pass");
            }
        }));
    }
    let until = Instant::now() + LIMIT;
    while scene.offers(first).await.len() < 5 || scene.offers(second).await.len() < 5 {
        assert!(Instant::now() < until, "nobody offers it again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    passing.iter().for_each(JoinHandle::abort);
    for task in [first, second] {
        let offers = scene.offers(task).await;
        for at in 1..offers.len() {
            let (before, now) = (offers[at - 1], offers[at]);
            let least = before.after(offers[0]).clamp(AFTER, AFTER * 16);
            assert!(
                now.after(before) >= least,
                "{at}: {:?} is less than {least:?}",
                now.after(before)
            );
        }
    }
    let server = scene.nats.server_info().expect("a server");
    assert!(server.jetstream);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_what_would_be_offered_and_what_waits_to_be_published() {
    let scene = Scene::new().await;
    let task = scene.submit(false).await;
    let said = plan(&scene.engine, &settings(Duration::ZERO))
        .await
        .expect("a plan")
        .to_string();
    assert!(
        said.contains(&format!(
            "offer task {task} again: it is dispatched, and nobody came for it"
        )),
        "{said}"
    );
    assert_eq!(scene.offers(task).await.len(), 0, "a plan changes nothing");
    let counts = pass(&scene.engine, &settings(Duration::ZERO))
        .await
        .expect("a pass")
        .counts();
    assert_eq!(counts["offered_again"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconciler_says_what_its_last_pass_did_and_processes_not_seen_for_a_day_are_forgotten() {
    let (server, scene) = (shared_postgres(), Scene::new().await);
    let url = server.database();
    PostgresStore::migrate(&url, &PostgresOptions::default())
        .await
        .expect("a schema");
    let store = PostgresStore::open(&url, PostgresOptions::default())
        .await
        .expect("a store");
    let ports = Ports {
        store: Arc::new(store),
        ..scene.engine.ports.clone()
    };
    let settings_of = EngineSettings {
        lost_after: Duration::from_millis(300),
        ..EngineSettings::default()
    };
    let registry = Arc::new(Registry::new().with::<Errand>());
    let old = Engine::new(
        ports.clone(),
        registry.clone(),
        settings_of.clone(),
        "worker",
    );
    old.present(Part::default(), Box::pin(async {})).await;
    let young = Engine::new(
        ports.clone(),
        registry.clone(),
        settings_of.clone(),
        "worker",
    );
    young.present(Part::default(), Box::pin(async {})).await;
    let age = format!(
        "UPDATE documents SET seen_at = now() - interval '25 hours' WHERE name = '{}'",
        old.id
    );
    server.run_sql(&url, &age).expect("it is old");

    let reconciler = Engine::new(ports, registry, settings_of, "reconciler");
    let planned = plan(&reconciler, &settings(NEVER))
        .await
        .expect("a plan")
        .to_string();
    assert_eq!(
        planned,
        format!("forget process {}: it was not seen for a day\n", old.id)
    );
    let stop = CancelToken::new();
    let settings = ReconcilerSettings {
        every: Duration::from_millis(50),
        ..settings(NEVER)
    };
    let serving = tokio::spawn(serve(reconciler.clone(), settings, stop.clone()));
    let until = Instant::now() + LIMIT;
    loop {
        let found = reconciler.status().await.expect("an answer").workers;
        let says = found
            .iter()
            .find(|worker| worker.id == *reconciler.id)
            .and_then(|found| found.last_pass.as_ref());
        if found.len() == 2 && says.is_some_and(|pass| pass.counts.contains_key("offered_again")) {
            break;
        }
        assert!(Instant::now() < until, "{found:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.cancel(CancelReason::Shutdown);
    serving.await.expect("it stops");
    let found = reconciler.status().await.expect("an answer").workers;
    let states: Vec<_> = found
        .iter()
        .map(|worker| (worker.id.as_str(), worker.state))
        .collect();
    assert_eq!(
        states,
        [
            (&*reconciler.id, WorkerState::Stopped),
            (&*young.id, WorkerState::Stopped)
        ]
    );
}
