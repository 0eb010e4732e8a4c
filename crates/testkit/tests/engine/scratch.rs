//! Scratch that is lost: in chains, before and after a reader, with effects and objects beside it.

use crate::errand::only;
use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_macros::distributed_task;
use counterstep_steps::{
    Classify, FileName, RetryPolicy, ScratchFile, StepContext, StepError, StepResult, StoredFile,
    UndoResult,
};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, TestTask};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

const SLEEPY: RetryPolicy = RetryPolicy::constant("2s").max_retries(1).jitter(false);
const QUICK: RetryPolicy = RetryPolicy::constant("10ms").max_retries(2);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Draft1(pub(crate) ScratchFile);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Draft2 {
    file: ScratchFile,
    copy: StoredFile,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Wish {
    /// The second file holds its attempt's number: made again, it comes out different.
    fickle: bool,
}

pub(crate) struct Chain;

async fn write(ctx: &StepContext, text: &str) -> StepResult<ScratchFile> {
    let draft = ctx.scratch("part.txt").await?;
    std::fs::write(draft.path(), text).transient("writing")?;
    draft.seal().await
}

#[distributed_task(name = "Chain", queue = "chain", cancellable, timeout = "60s")]
impl Chain {
    type Request = Wish;
    type Response = u32;

    #[step(1, host = "worker", retry = QUICK, no_undo = "scratch only")]
    async fn first(ctx: &StepContext) -> StepResult<Draft1> {
        Ok(Draft1(write(ctx, "one").await?))
    }

    #[step(2, host = "worker", retry = QUICK, undo = unsecond)]
    async fn second(ctx: &StepContext, req: &Wish, first: &Draft1) -> StepResult<Draft2> {
        let one =
            std::fs::read_to_string(ctx.scratch_path(&first.0).await?).transient("reading")?;
        let text = if req.fickle {
            format!("{one} {}", ctx.attempt())
        } else {
            format!("{one} two")
        };
        let file = write(ctx, &text).await?;
        let body = futures::stream::once(async move { Ok(text.into()) }).boxed();
        let name = FileName::parse("copy.txt").permanent("naming")?;
        Ok(Draft2 {
            file,
            copy: ctx
                .objects()
                .put("copies", &name, "text/plain", body)
                .await?,
        })
    }

    async fn unsecond(ctx: &StepContext, _out: Option<Draft2>) -> UndoResult {
        ctx.objects().delete_all_of_step().await.map(drop)
    }

    #[step(3, host = "worker", retry = SLEEPY, no_undo = "reads only")]
    async fn third(ctx: &StepContext, second: &Draft2) -> StepResult<u32> {
        let text =
            std::fs::read_to_string(ctx.scratch_path(&second.file).await?).transient("reading")?;
        u32::try_from(text.len()).map_err(StepError::permanent)
    }

    #[step(4, host = "worker", retry = SLEEPY, no_undo = "reads only")]
    async fn fourth(ctx: &StepContext, second: &Draft2) -> StepResult<u64> {
        let text =
            std::fs::read_to_string(ctx.scratch_path(&second.file).await?).transient("reading")?;
        Ok(text.len() as u64)
    }

    fn respond(third: &u32) -> u32 {
        *third
    }
}

/// Runs the task; while it sleeps, all its scratch goes.
async fn run_and_wipe_in_its_sleep(task: &TestTask) -> TaskStatus {
    task.run_to_wait().await;
    let scratch = &task.engine.ports.scratch;
    scratch.remove(task.id).await.expect("the scratch goes");
    task.run_to_rest().await
}

fn sleeps_at(step: &str) -> Fault {
    Fault::at(step, FaultKind::FailTransiently).on_attempt(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_lost_files_is_made_again_from_its_first_link() {
    let task = Harness::embedded(only::<Chain>())
        .fault(sleeps_at("third"))
        .submit(Form::new())
        .await;
    assert_eq!(
        run_and_wipe_in_its_sleep(&task).await,
        TaskStatus::Completed
    );
    task.assert_trail(
        "first ok, second ok, third retries, first rebuilt, second scratch lost, second ok, third ok, fourth ok, \
         completed",
    )
    .await;
    task.assert_no_orphans().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_a_link_cannot_be_made_again_everything_is_undone() {
    let task = Harness::embedded(only::<Chain>())
        .fault(sleeps_at("third"))
        .fault(Fault::at("first", FaultKind::FailBefore).on_attempt(2))
        .submit(Form::new())
        .await;
    assert_eq!(run_and_wipe_in_its_sleep(&task).await, TaskStatus::Failed);
    assert_eq!(
        task.record()
            .await
            .task
            .failure
            .expect("a failure")
            .step
            .as_deref(),
        Some("first")
    );
    assert!(
        task.trail().await.contains("second undone"),
        "{}",
        task.trail().await
    );
    task.assert_invariants().await;
    task.assert_no_objects().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reader_the_same_bytes_are_made_again_and_the_committed_output_stands() {
    let task = Harness::embedded(only::<Chain>())
        .fault(sleeps_at("fourth"))
        .submit(Form::new())
        .await;
    assert_eq!(
        run_and_wipe_in_its_sleep(&task).await,
        TaskStatus::Completed
    );
    task.assert_invariants().await;
    let trail = task.trail().await;
    assert!(
        trail.contains("fourth retries, first scratch lost") || trail.contains("first rebuilt"),
        "{trail}"
    );
    assert!(trail.contains("second rebuilt"), "{trail}");
    let record = task.record().await;
    let first_output = record.steps[1].output.as_ref().expect("an output");
    assert!(
        first_output["copy"]["key"]
            .as_str()
            .expect("a key")
            .contains(".1/"),
        "the first attempt's output stands"
    );
    // The object that the rebuild stored belongs to nothing.
    task.assert_no_orphans().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_reader_other_bytes_are_refused() {
    let form = Form::new().field("fickle", true);
    let task = Harness::embedded(only::<Chain>())
        .fault(sleeps_at("fourth"))
        .submit(form)
        .await;
    assert_eq!(run_and_wipe_in_its_sleep(&task).await, TaskStatus::Failed);
    let record = task.record().await;
    let failure = record.task.failure.expect("a failure");
    assert_eq!(
        (failure.step.as_deref(), failure.class.as_str()),
        (Some("second"), "permanent")
    );
    assert_eq!(record.steps[1].status, StepStatus::Compensated);
    task.assert_invariants().await;
    task.assert_no_objects().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_that_fails_uses_up_retries_and_ends() {
    let again = |n| Fault::at("second", FaultKind::Panic).on_attempt(n);
    let harness = (2..=4).fold(Harness::embedded(only::<Chain>()), |harness, n| {
        harness.fault(again(n))
    });
    let task = harness.fault(sleeps_at("fourth")).submit(Form::new()).await;
    assert_eq!(run_and_wipe_in_its_sleep(&task).await, TaskStatus::Failed);
    let record = task.record().await;
    assert_eq!(
        (record.steps[1].retries_used, record.steps[1].attempts.0),
        (3, 4),
        "{}",
        task.trail().await
    );
    assert!(
        task.history()
            .await
            .attempts
            .iter()
            .all(|attempt| attempt.outcome.is_some()),
        "none is left open"
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_gets_no_more_time_than_the_deadline_of_its_task() {
    let hangs = Fault::at("first", FaultKind::HangBefore).on_attempt(2);
    let harness = Harness::embedded(only::<Chain>()).settings(|settings| {
        settings.step_timeout = Duration::from_secs(600);
        settings.lease = Duration::from_secs(600);
    });
    let harness = harness.fault(sleeps_at("third")).fault(hangs.clone());
    let task = harness.submit(Form::new()).await;
    let passes = async {
        eventually("the rebuild", || async {
            (hangs.hanging() > 0).then_some(())
        })
        .await;
        task.clock.advance("60s");
        eventually("the end of the rebuild", || async {
            (hangs.hanging() == 0).then_some(())
        })
        .await;
    };
    let (status, ()) = futures::join!(run_and_wipe_in_its_sleep(&task), passes);
    assert_eq!(status, TaskStatus::Failed);
    let failure = task.record().await.task.failure.expect("a failure");
    assert_eq!(failure.class, "deadline");
    task.assert_invariants().await;
}

/// Gives out what its client has sent.
struct Echo;

#[distributed_task(name = "Echo", queue = "chain")]
impl Echo {
    type Request = Sent;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "reads only")]
    async fn echo(ctx: &StepContext, req: &Sent) -> StepResult<Value> {
        if ctx.attempt().0 > 1 {
            return Err(StepError::permanent("it runs once"));
        }
        Ok(req.body.clone())
    }

    #[step(2, host = "worker", no_undo = "reads only")]
    async fn count(echo: &Value) -> StepResult<u32> {
        Ok(u32::try_from(echo.as_object().map_or(0, serde_json::Map::len)).unwrap_or(u32::MAX))
    }

    #[step(3, host = "api", no_undo = "reads only")]
    async fn elsewhere(echo: &Value, count: &u32) -> StepResult<u32> {
        let _ = echo;
        Ok(*count)
    }

    fn respond(elsewhere: &u32) -> u32 {
        *elsewhere
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Sent {
    body: Value,
}

#[tokio::test(flavor = "multi_thread")]
async fn data_that_looks_like_a_scratch_file_is_data() {
    let file = |step: &str| {
        json!({"$scratch": {"name": "a.bin", "size_bytes": 3, "sha256": "0".repeat(64), "step": step,
            "task": "019ab000-0000-7000-8000-000000000007"}})
    };
    let without_a_task = json!({"$scratch": {"name": "a.bin", "size_bytes": 3, "sha256": "0".repeat(64), "step": "echo"}});
    let body = json!({"meta": file("echo"), "other": [file("count")], "old": without_a_task});
    let harness = Harness::embedded(only::<Echo>());
    let task = harness.submit(Form::new().field("body", body)).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let record = task.record().await;
    let attempts = record.steps.iter().map(|step| step.attempts.0);
    assert_eq!(attempts.collect::<Vec<_>>(), [1, 1, 1]);
    task.assert_invariants().await;
}
