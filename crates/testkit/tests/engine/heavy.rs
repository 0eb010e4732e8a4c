//! Heavy steps: few run side by side, and light tasks of the same queue go past those that wait for room.

use counterstep_contracts::{StepStatus, TaskId, TaskStatus, Tenant};
use counterstep_kernel::client::{Receipt, Submission};
use counterstep_kernel::{Registry, StepContext, StepResult};
use counterstep_macros::distributed_task;
use counterstep_testkit::Harness;
use counterstep_testkit::site::{Site, eventually};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// Heavy steps that one process runs side by side in these tests.
const ROOM: usize = 2;

/// Heavy steps inside their code now, and the most there ever were.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// A permit for each heavy step that may go on.
static GATE: Semaphore = Semaphore::const_new(0);

async fn weigh_down() {
    let inside = INSIDE.fetch_add(1, Ordering::SeqCst) + 1;
    MOST.fetch_max(inside, Ordering::SeqCst);
    GATE.acquire().await.expect("the gate").forget();
    INSIDE.fetch_sub(1, Ordering::SeqCst);
}

struct Grind;

#[distributed_task(name = "Grind", queue = "mixed", heavy)]
impl Grind {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn grind(_ctx: &StepContext) -> StepResult<u32> {
        weigh_down().await;
        Ok(1)
    }

    fn respond() {}
}

struct LookThenGrind;

#[distributed_task(name = "LookThenGrind", queue = "mixed")]
impl LookThenGrind {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn look(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    #[step(2, host = "worker", heavy, no_undo = "does nothing")]
    async fn grind(_ctx: &StepContext, look: &u32) -> StepResult<u32> {
        weigh_down().await;
        Ok(*look)
    }

    fn respond() {}
}

struct Light;

#[distributed_task(name = "Light", queue = "mixed")]
impl Light {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn glance(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    fn respond() {}
}

async fn submit(site: &Site, name: &str, tasks: usize) -> Vec<TaskId> {
    let mut submitted = Vec::new();
    for _ in 0..tasks {
        let task_type = site.engine.registry.get(name, 1).expect("the type");
        let submission = Submission { tenant: Tenant::default(), key: None, traceparent: None };
        let mut receipt = Receipt::begin(&site.engine, task_type, submission).await.expect("the receipt begins");
        receipt.body(json!({})).expect("the body is accepted");
        submitted.push(receipt.submit().await.expect("the request is accepted").answer.task_id);
    }
    submitted
}

#[tokio::test]
async fn few_heavy_steps_run_side_by_side_and_light_tasks_go_past_those_that_wait() {
    let registry = Registry::new().with::<Grind>().with::<LookThenGrind>().with::<Light>();
    let mut site = Harness::embedded(registry).settings(|settings| settings.heavy = ROOM).start().await;
    let heavy = submit(&site, "Grind", 6).await;
    site.serve(8);
    eventually("heavy steps in all of the room", || async { (INSIDE.load(Ordering::SeqCst) == ROOM).then_some(()) })
        .await;
    let light = submit(&site, "Light", 12).await;
    site.all_are(TaskStatus::Completed, &light).await;

    // What is heavy only later is given back there: it holds neither a lease nor a slot while it waits.
    let later = submit(&site, "LookThenGrind", 3).await;
    let given_back = |record: &counterstep_kernel::record::TaskRecord| {
        record.steps[0].status == StepStatus::Completed && record.task.lease_owner.is_none()
    };
    site.all("given back before its heavy step", &later, given_back).await;
    let mut claimed = 0;
    for task in heavy.iter().chain(&later) {
        claimed += usize::from(site.record(*task).await.task.lease_owner.is_some());
    }
    assert_eq!(claimed, ROOM, "only what has room is claimed");

    GATE.add_permits(heavy.len() + later.len());
    let mut records = site.all_are(TaskStatus::Completed, &heavy).await;
    records.extend(site.all_are(TaskStatus::Completed, &later).await);
    assert_eq!(MOST.load(Ordering::SeqCst), ROOM);
    for record in &records {
        let last = record.steps.last().expect("a step");
        assert_eq!((record.task.recovery_attempts, last.attempts.0), (0, 1), "{record:?}");
    }
    site.assert_invariants(&[heavy, later, light].concat()).await;
    site.stop().await;
}
