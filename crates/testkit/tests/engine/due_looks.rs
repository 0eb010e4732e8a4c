//! Looks for due tasks: what has to wait hides nothing that is due.

use counterstep_contracts::{Host, TaskStatus};
use counterstep_kernel::host::{HostSettings, Spawn, serve};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_steps::{
    CancelToken, Limit, Registry, RetryPolicy, StepContext, StepError, StepResult,
};
use counterstep_testkit::{Form, Harness, LossyQueue};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Serialize, Deserialize)]
struct Nothing {}

const RARELY: Limit = Limit::named("one-an-hour").rate(1, "1h");
const LATER: RetryPolicy = RetryPolicy::constant("10m").max_retries(1).jitter(false);

struct Rare;

#[distributed_task(name = "Rare", timeout = "5h")]
impl Rare {
    type Request = Nothing;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing", limit = RARELY)]
    async fn call() -> StepResult<u32> {
        Ok(1)
    }

    fn respond() {}
}

struct Stumbles;

#[distributed_task(name = "Stumbles", timeout = "5h")]
impl Stumbles {
    type Request = Nothing;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing", retry = LATER)]
    async fn call(ctx: &StepContext) -> StepResult<u32> {
        match ctx.attempt().0 {
            1 => Err(StepError::transient("it stumbles")),
            _ => Ok(1),
        }
    }

    fn respond() {}
}

/// More tasks than one look sees wait for a limit, and each of them has been due for longer than the retry.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_over_a_limit_hide_no_retry() {
    let registry = Registry::new().with::<Rare>().with::<Stumbles>();
    let site = Harness::embedded(registry).start().await;
    // No message brings a task: a queue that hands out tasks finds the retry itself.
    let mut ports = site.engine.ports.clone();
    ports.queue = Arc::new(LossyQueue::default());
    let registry = site.engine.registry.clone();
    let engine = Engine::new(ports, registry, EngineSettings::default(), "polling");
    let mut settings = HostSettings::for_all(&engine.registry, Host::Worker, 32);
    (settings.poll, settings.unclaimed_for) = (Duration::from_millis(50), Duration::ZERO);
    let first = site.submit(Form::to::<Rare>()).await;
    let retried = site.submit(Form::to::<Stumbles>()).await;
    let spawn: Spawn = Arc::new(|turn| drop(tokio::spawn(turn)));
    let serving = serve(engine, settings, CancelToken::new(), spawn);
    let serving = tokio::spawn(serving);
    site.all_are(TaskStatus::Completed, &[first]).await;
    site.all_are(TaskStatus::Waiting, &[retried]).await;
    for _ in 0..2_100 {
        site.submit(Form::to::<Rare>()).await;
    }
    site.clock.advance("10m");
    site.all_are(TaskStatus::Completed, &[retried]).await;
    serving.abort();
}
