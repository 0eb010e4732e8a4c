//! Tasks of one queue whose types have priorities.

use counterstep_contracts::{QueueName, TaskId, TaskStatus};
use counterstep_kernel::admission::paused_queues::{pause_queue, queues, resume_queue};
use counterstep_macros::distributed_task;
use counterstep_steps::{Registry, StepResult};
use counterstep_testkit::many_tasks::Site;
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use std::sync::Mutex;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Order {
    test: String,
}

/// The names of the types whose tasks have run, by test.
static RAN: Mutex<Vec<(String, &str)>> = Mutex::new(Vec::new());

fn ran(test: &str) -> Vec<&'static str> {
    let ran = RAN.lock().expect("no test failed");
    let of_test = ran.iter().filter(|(of, _)| of == test);
    of_test.map(|(_, name)| *name).collect()
}

struct First;

#[distributed_task(name = "First", queue = "mixed", priority = "high")]
impl First {
    type Request = Order;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn note(req: &Order) -> StepResult<u32> {
        RAN.lock()
            .expect("no test failed")
            .push((req.test.clone(), "First"));
        Ok(1)
    }

    fn respond() {}
}

struct Usual;

#[distributed_task(name = "Usual", queue = "mixed")]
impl Usual {
    type Request = Order;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn note(req: &Order) -> StepResult<u32> {
        RAN.lock()
            .expect("no test failed")
            .push((req.test.clone(), "Usual"));
        Ok(1)
    }

    fn respond() {}
}

struct Last;

#[distributed_task(name = "Last", queue = "mixed", priority = "low")]
impl Last {
    type Request = Order;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn note(req: &Order) -> StepResult<u32> {
        RAN.lock()
            .expect("no test failed")
            .push((req.test.clone(), "Last"));
        Ok(1)
    }

    fn respond() {}
}

fn mixed() -> Registry {
    Registry::new()
        .with::<First>()
        .with::<Usual>()
        .with::<Last>()
}

async fn submit(site: &Site, task_type: &str, test: &str) -> TaskId {
    let form = match task_type {
        "First" => Form::to::<First>(),
        "Usual" => Form::to::<Usual>(),
        _ => Form::to::<Last>(),
    };
    site.submit(form.field("test", test)).await
}

#[tokio::test]
async fn a_high_priority_comes_first_and_a_low_one_last() {
    let mut site = Harness::embedded(mixed()).start().await;
    let mut tasks = Vec::new();
    for task_type in ["Last", "Usual", "Last", "First", "Usual", "First"] {
        tasks.push(submit(&site, task_type, "order").await);
    }
    site.serve(1);
    site.all_are(TaskStatus::Completed, &tasks).await;
    let order = ["First", "First", "Usual", "Usual", "Last", "Last"];
    assert_eq!(ran("order"), order);
    site.assert_invariants(&tasks).await;
}

#[tokio::test]
async fn a_paused_queue_is_paused_in_all_of_its_lanes() {
    let mut site = Harness::embedded(mixed()).start().await;
    let name = QueueName("mixed".to_owned());
    let paused = pause_queue(&site.engine, &name, "kim", "looking").await;
    paused.expect("it is paused");
    let mut tasks = Vec::new();
    for task_type in ["First", "Usual", "Last"] {
        tasks.push(submit(&site, task_type, "paused").await);
    }
    let rows = queues(&site.engine).await.expect("the queues");
    let names = rows.iter().map(|row| row.name.0.as_str());
    assert_eq!(Vec::from_iter(names), ["mixed", "mixed.api"]);
    site.serve(1);
    site.clock.advance("10s");
    assert!(ran("paused").is_empty());
    for task in &tasks {
        assert_eq!(site.record(*task).await.task.status, TaskStatus::Dispatched);
    }
    let resumed = resume_queue(&site.engine, &name, "kim", "done").await;
    resumed.expect("it is resumed");
    site.clock.advance("2s");
    site.all_are(TaskStatus::Completed, &tasks).await;
}
