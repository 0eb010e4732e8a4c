//! An object store or a queue that takes requests and never answers: what need not wait for it goes
//! on, and a shutdown does not wait for it either.

use crate::place::{Kind, Place, Row};
use async_trait::async_trait;
use counterstep_adapters::buckets::settings::Credentials;
use counterstep_adapters::s3::{self, S3Settings};
use counterstep_contracts::{
    Host, QueueName, ScheduleSpec, TaskId, TaskStatus, Tenant, WorkerMessage,
};
use counterstep_kernel::Engine;
use counterstep_kernel::ports::{Delivery, DeliveryTag, Queue, QueueError, Settle};
use counterstep_kernel::record::TaskRow;
use counterstep_kernel::schedule;
use counterstep_kernel::turn::turn;
use counterstep_macros::distributed_task;
use counterstep_reconciler::{ReconcilerSettings, serve};
use counterstep_steps::{CancelReason, CancelToken, Registry, StepContext, StepResult};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, TestClock, form};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// What has not happened after this long never will. Far below the time limit of a request to the
/// object store.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Nothing {}

struct Stuck;

#[distributed_task(name = "Stuck", queue = "stuck", lease = "1s")]
impl Stuck {
    type Request = Nothing;
    type Response = ();

    #[step(1, host = "worker", no_undo = "it does nothing")]
    async fn hang(_ctx: &StepContext) -> StepResult<u8> {
        std::future::pending().await
    }

    fn respond(_hang: &u8) {}
}

async fn row(engine: &Engine, task: TaskId) -> Box<TaskRow> {
    engine
        .ports
        .store
        .load(task)
        .await
        .expect("the store answers")
        .expect("the task")
        .task
}

/// Waits for what `look` finds.
async fn found<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    eventually(what, || async { look().await }).await
}

/// A task whose host is aborted in the middle of its step.
async fn lose_a_host(engine: &Engine, clock: &TestClock) -> TaskId {
    let task = form::submit(engine, Form::new()).await;
    let host = engine.clone();
    let running =
        tokio::spawn(async move { turn(&host, Host::Worker, task, &CancelToken::new()).await });
    found("the task runs", async || {
        (row(engine, task).await.status == TaskStatus::Running).then_some(())
    })
    .await;
    running.abort();
    let _ = running.await;
    clock.advance("1s");
    task
}

async fn make_due(engine: &Engine, name: &str) {
    let spec = ScheduleSpec {
        cron: Some("@yearly".to_owned()),
        ..ScheduleSpec::of("Stuck")
    };
    let set = schedule::set(engine, &Tenant::default(), name, spec, "kim")
        .await
        .expect("it is set");
    let mut row = set.row;
    row.next_due_at = Some(set.now);
    row.rev = row.rev.next();
    assert!(
        engine
            .ports
            .store
            .put_schedule(&row)
            .await
            .expect("the store answers")
    );
}

/// While a sweep (where an intent is overdue) or else a listing hangs.
async fn goes_on_while_upkeep_hangs(overdue: bool) {
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = silent.local_addr().expect("its address");
    let mut place = Place::new(Registry::new().with::<Stuck>(), |_| {}).await;
    if overdue {
        place
            .task(TaskStatus::Dispatched, &[Row::of(1, Kind::Overdue)])
            .await;
    }
    let file = place.folder().join("credentials");
    std::fs::write(
        &file,
        "aws_access_key_id = id\naws_secret_access_key = secret\n",
    )
    .expect("a file");
    let url = format!(
        "s3://objects?endpoint=http://{endpoint}&allow_http=true&request_timeout_s=600&retry_for_s=600"
    );
    let mut settings = S3Settings::from_url(&url).expect("settings");
    settings.common.credentials = Credentials::File(file);
    place.engine.ports.objects = Arc::new(s3::open(&settings).expect("the adapter opens"));

    let (engine, stop) = (place.another(), CancelToken::new());
    let settings = ReconcilerSettings {
        every: Duration::from_millis(50),
        ..ReconcilerSettings::default()
    };
    let serving = tokio::spawn(serve(engine.clone(), settings, stop.clone()));
    let _hanging = tokio::time::timeout(LIMIT, silent.accept())
        .await
        .expect("upkeep asks")
        .expect("a connection");

    make_due(&engine, "yearly").await;
    let lost = lose_a_host(&engine, &place.clock).await;
    found("the schedule fires", async || {
        schedule::get(&engine, &Tenant::default(), "yearly")
            .await
            .expect("the schedule")
            .row
            .last_task
    })
    .await;
    found("the lost task is taken back", async || {
        (row(&engine, lost).await.status == TaskStatus::Dispatched).then_some(())
    })
    .await;

    stop.cancel(CancelReason::Shutdown);
    tokio::time::timeout(LIMIT, serving)
        .await
        .expect("it stops")
        .expect("no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_hangs_holds_up_neither_recovery_nor_schedules_nor_a_shutdown() {
    goes_on_while_upkeep_hangs(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_hangs_holds_up_neither_recovery_nor_schedules_nor_a_shutdown() {
    goes_on_while_upkeep_hangs(true).await;
}

/// A queue whose server is connected and never answers.
#[derive(Debug)]
struct SilentQueue;

#[async_trait]
impl Queue for SilentQueue {
    async fn publish(&self, _: &QueueName, _: &WorkerMessage) -> Result<(), QueueError> {
        std::future::pending().await
    }

    async fn fetch(
        &self,
        _: &[QueueName],
        _: usize,
        _: Duration,
    ) -> Result<Vec<Delivery>, QueueError> {
        std::future::pending().await
    }

    async fn settle(&self, _: &DeliveryTag, _: Settle) -> Result<(), QueueError> {
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_hangs_holds_up_neither_recovery_nor_schedules_nor_a_shutdown() {
    let place = Place::new(Registry::new().with::<Stuck>(), |_| {}).await;
    let (mut engine, stop) = (place.another(), CancelToken::new());
    engine.ports.queue = Arc::new(SilentQueue);
    let every = Duration::from_millis(50);
    let settings = ReconcilerSettings {
        every,
        relay_after: Duration::ZERO,
        ..ReconcilerSettings::default()
    };
    let serving = tokio::spawn(serve(engine, settings, stop.clone()));

    // Each of the second round comes behind a message that no client takes.
    for name in ["one", "two"] {
        make_due(&place.engine, name).await;
        let lost = lose_a_host(&place.engine, &place.clock).await;
        found("the schedule fires", async || {
            schedule::get(&place.engine, &Tenant::default(), name)
                .await
                .expect("the schedule")
                .row
                .last_task
        })
        .await;
        found("the lost task is taken back", async || {
            (row(&place.engine, lost).await.status == TaskStatus::Dispatched).then_some(())
        })
        .await;
    }

    stop.cancel(CancelReason::Shutdown);
    tokio::time::timeout(LIMIT, serving)
        .await
        .expect("it stops")
        .expect("no panic");
}
