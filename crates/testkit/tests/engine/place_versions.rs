//! Versions of a type that allow different numbers of tasks under way.

use crate::errand::only;
use crate::limits::{inside, service};
use crate::places::{Import, asleep, submit};
use counterstep_contracts::TaskStatus;
use counterstep_kernel::Engine;
use counterstep_macros::distributed_task;
use counterstep_steps::{Registry, StepResult};
use counterstep_testkit::Harness;
use std::sync::Arc;
use std::time::Duration;

struct ImportOne;

#[distributed_task(
    name = "ImportVersions",
    version = 1,
    key = "req.customer",
    at_once = 1
)]
impl ImportOne {
    type Request = Import;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn import(req: &Import) -> StepResult<u32> {
        service(&req.service).call().await;
        Ok(1)
    }

    fn respond() {}
}

struct ImportTwo;

#[distributed_task(
    name = "ImportVersions",
    version = 2,
    key = "req.customer",
    at_once = 2
)]
impl ImportTwo {
    type Request = Import;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn import(req: &Import) -> StepResult<u32> {
        service(&req.service).call().await;
        Ok(1)
    }

    fn respond() {}
}

#[tokio::test]
async fn the_newest_version_says_how_many_tasks_of_all_versions_are_under_way() {
    let both = Registry::new().with::<ImportOne>().with::<ImportTwo>();
    let mut site = Harness::embedded(both)
        .settings(|settings| settings.step_timeout = Duration::from_secs(600))
        .start()
        .await;
    let old = Engine::new(
        site.engine.ports.clone(),
        Arc::new(only::<ImportOne>()),
        (*site.engine.settings).clone(),
        "old",
    );
    let both = std::mem::replace(&mut site.engine, old);
    let tasks = submit(&site, "versions", "a", 3).await;
    site.engine = both;
    site.serve(4);
    let called = service("versions");
    inside(&called, 2).await;
    asleep(&site, &tasks[2..]).await;
    called.gate.add_permits(3);
    let ended = site.all_are(TaskStatus::Completed, &tasks).await;
    assert_eq!(called.most(), 2);
    for record in &ended {
        // One that is woken although there is no place for it sleeps again, thousands of times.
        let (rev, task) = (record.task.rev.0, record.task.id);
        assert!(rev < 20, "{task} was changed {rev} times");
    }
    site.assert_invariants(&tasks).await;
}
