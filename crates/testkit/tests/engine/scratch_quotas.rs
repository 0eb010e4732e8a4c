//! Scratch files that take more of the disk than they may.

use crate::errand::{QUICK, only};
use counterstep_contracts::TaskStatus;
use counterstep_macros::distributed_task;
use counterstep_steps::{Classify, StepContext, StepResult};
use counterstep_testkit::clock::work_for;
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const MIB: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Load {
    bytes: u64,
    /// Goes on afterwards.
    lingers: bool,
}

async fn write(ctx: &StepContext, load: &Load) -> StepResult<u64> {
    let draft = ctx.scratch("load").await?;
    let bytes = usize::try_from(load.bytes).permanent("the size")?;
    tokio::fs::write(draft.path(), vec![7; bytes])
        .await
        .transient("writing")?;
    if load.lingers {
        work_for(ctx.task_id(), Duration::from_secs(3_600)).await;
    }
    draft.seal().await.map(|file| file.size_bytes)
}

struct Narrow;

#[distributed_task(name = "Narrow", queue = "lorries")]
impl Narrow {
    type Request = Load;
    type Response = u64;

    #[step(1, host = "worker", retry = QUICK, scratch = "1MiB", timeout = "2h", no_undo = "scratch only")]
    async fn haul(ctx: &StepContext, load: &Load) -> StepResult<u64> {
        write(ctx, load).await
    }

    fn respond(haul: &u64) -> u64 {
        *haul
    }
}

struct Wide;

#[distributed_task(name = "Wide", queue = "lorries")]
impl Wide {
    type Request = Load;
    type Response = u64;

    #[step(1, host = "worker", timeout = "2h", no_undo = "scratch only")]
    async fn haul(ctx: &StepContext, load: &Load) -> StepResult<u64> {
        write(ctx, load).await
    }

    fn respond(haul: &u64) -> u64 {
        *haul
    }
}

fn load(bytes: u64, lingers: bool) -> Form {
    Form::new().field("bytes", bytes).field("lingers", lingers)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_within_its_quota_succeeds_and_one_beyond_it_fails_for_good() {
    let task = Harness::embedded(only::<Narrow>())
        .submit(load(MIB / 2, false))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let task = Harness::embedded(only::<Narrow>())
        .submit(load(3 * MIB, false))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let failure = task.record().await.task.failure.expect("a failure");
    assert_eq!(failure.class, "permanent");
    assert_eq!(
        failure.message,
        "the scratch files of the step take 3MiB, more than its quota of 1MiB (key `scratch`)"
    );
    assert_eq!(task.record().await.steps[0].attempts.0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_goes_beyond_its_quota_is_stopped_while_it_runs() {
    let task = Harness::embedded(only::<Narrow>())
        .submit(load(3 * MIB, true))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let failure = task.record().await.task.failure.expect("a failure");
    assert!(
        failure.message.contains("more than its quota of 1MiB"),
        "{failure:?}"
    );
    let left = task.engine.ports.scratch.tasks().await.expect("a list");
    assert_eq!(left, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_fills_the_quota_of_the_host_fails_for_now() {
    let quota = |settings: &mut counterstep_kernel::EngineSettings| {
        settings.scratch_quota = Some(MIB);
    };
    let task = Harness::embedded(only::<Wide>())
        .settings(quota)
        .submit(load(3 * MIB, true))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let failure = task.record().await.task.failure.expect("a failure");
    assert_eq!(failure.class, "transient");
    assert!(
        failure
            .message
            .contains("more than its quota of 1MiB (setting `scratch_quota`)"),
        "{failure:?}"
    );
}
