//! Which version of a type a step submits.

use counterstep_contracts::TaskStatus;
use counterstep_macros::distributed_task;
use counterstep_steps::{AwaitTask, Registry, StepContext, StepResult};
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The version of a type that a program of its time names.
pub(crate) struct CountOne;

#[distributed_task(name = "Count", version = 1, queue = "counts")]
impl CountOne {
    type Request = u32;
    type Response = String;

    #[step(1, host = "worker", no_undo = "it only counts")]
    async fn count(_ctx: &StepContext) -> StepResult<String> {
        Ok("version 1".to_owned())
    }

    fn respond(count: &String) -> String {
        count.clone()
    }
}

/// What counts now takes another request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CountRequest {
    from: u32,
}

pub(crate) struct CountTwo;

#[distributed_task(name = "Count", version = 2, queue = "counts")]
impl CountTwo {
    type Request = CountRequest;
    type Response = String;

    #[step(1, host = "worker", no_undo = "it only counts")]
    async fn count(_ctx: &StepContext) -> StepResult<String> {
        Ok("version 2".to_owned())
    }

    fn respond(count: &String) -> String {
        count.clone()
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sum {}

pub(crate) struct SumUp;

#[distributed_task(name = "SumUp", queue = "sums")]
impl SumUp {
    type Request = Sum;
    type Response = String;

    #[step(1, host = "worker")]
    fn count(sum: &Sum) -> AwaitTask<CountOne> {
        let _ = sum;
        AwaitTask::of(&1)
    }

    fn respond(count: &String) -> String {
        count.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_submits_the_version_that_its_code_names() {
    let types = Registry::new()
        .with::<SumUp>()
        .with::<CountOne>()
        .with::<CountTwo>();
    let task = Harness::embedded(types).submit(Form::to::<SumUp>()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(task.record().await.task.response, Some(json!("version 1")));
    task.assert_invariants().await;
}
