//! Cancels on PostgreSQL and NATS: one that reaches a step in another process, and 500 that race
//! against completions.

use crate::suite::{LIMIT, eventually};
use crate::{embedded, nats, postgres};
use counterstep_adapters::nats::{Hears, NatsOptions};
use counterstep_contracts::{Host, StepStatus, TaskStatus};
use counterstep_kernel::client;
use counterstep_kernel::ports::Ports;
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_steps::{CancelToken, Registry, StepContext, StepError, StepResult, UndoResult};
use counterstep_testkit::{Form, form, races};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Wait {
    /// Until it is cancelled.
    is_long: bool,
}

struct Errand;

#[distributed_task(name = "CancelledErrand", queue = "cancels", cancellable)]
impl Errand {
    type Request = Wait;
    type Response = u32;

    #[step(1, host = "worker", undo = nothing)]
    async fn wait(ctx: &StepContext, req: &Wait) -> StepResult<u32> {
        if req.is_long {
            ctx.cancel().cancelled().await;
            return Err(StepError::cancelled());
        }
        tokio::task::yield_now().await;
        ctx.go_on()?;
        Ok(1)
    }

    async fn nothing(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", undo = nothing_again)]
    async fn hand_in(_wait: &u32) -> StepResult<bool> {
        Ok(true)
    }

    async fn nothing_again(_out: Option<bool>) -> UndoResult {
        Ok(())
    }

    fn respond(wait: &u32) -> u32 {
        *wait
    }
}

/// An engine as another process would have it: connections of its own.
async fn process(url: &str, nats: NatsOptions, role: &str) -> (Engine, TempDir) {
    let embedded = embedded::fixture().await;
    let nats = nats::open(nats).await;
    let store = postgres::open(url, postgres::options()).await;
    let ports = Ports {
        store,
        queue: Arc::new(nats.queue()),
        signals: Arc::new(nats.signals()),
        ..embedded.ports
    };
    // No heartbeat comes for minutes: it cannot be what brings the news.
    let settings = EngineSettings {
        lease: Duration::from_secs(3600),
        ..EngineSettings::default()
    };
    (
        Engine::new(
            ports,
            Arc::new(Registry::new().with::<Errand>()),
            settings,
            role,
        ),
        embedded.folder,
    )
}

async fn cancelled_elsewhere(api: &Engine, worker: &Engine) -> Duration {
    let task = form::submit(api, Form::new().field("is_long", true)).await;
    let running = tokio::spawn({
        let worker = worker.clone();
        async move { turn(&worker, Host::Worker, task, &CancelToken::new()).await }
    });
    eventually("a running step", || async {
        let record = api.ports.store.load(task).await.unwrap().unwrap();
        (record.steps[0].status == StepStatus::Running).then_some(())
    })
    .await;
    let asked = Instant::now();
    client::cancel(api, task, "client").await.expect("accepted");
    let end = tokio::time::timeout(LIMIT, running)
        .await
        .expect("it stops")
        .expect("no panic");
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Cancelled));
    asked.elapsed()
}

async fn two_processes() -> [(Engine, TempDir); 2] {
    let (url, options) = (postgres::database().await, nats::apart());
    let worker = NatsOptions {
        hears: Hears::Cancels,
        ..options.clone()
    };
    [
        process(&url, options, "api").await,
        process(&url, worker, "worker").await,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_a_step_in_another_process_by_nats() {
    let [(api, _one), (worker, _other)] = two_processes().await;
    cancelled_elsewhere(&api, &worker).await;
}

/// Not a test of anything:
/// `cargo test -p counterstep-adapters --all-features --release --test adapters -- --ignored --nocapture how_soon`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: from a cancel's request to the end of the undo in another process"]
async fn how_soon_a_cancel_is_carried_out_elsewhere() {
    let [(api, _one), (worker, _other)] = two_processes().await;
    let mut times = Vec::new();
    for _ in 0..41 {
        times.push(cancelled_elsewhere(&api, &worker).await);
    }
    times.sort_unstable();
    println!(
        "PostgreSQL and NATS: median {:?}, longest {:?}",
        times[20], times[40]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_500_races_on_postgres_each_answer_comes_true() {
    let fixture = postgres::fixture().await;
    let registry = Arc::new(Registry::new().with::<Errand>());
    let engine = Engine::new(
        fixture.ports.clone(),
        registry,
        EngineSettings::default(),
        "worker",
    );
    let mut tasks = Vec::new();
    for _ in 0..500 {
        tasks.push(form::submit(&engine, Form::new().field("is_long", false)).await);
    }
    let ran = races::cancel_against_completion(&engine, tasks).await;
    assert_eq!(ran.cancelled + ran.completed, 500);
    println!("{ran:?}");
}
