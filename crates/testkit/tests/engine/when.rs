//! Conditions on outputs: which steps run is decided from what earlier ones found out.

use crate::errand::only;
use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_macros::distributed_task;
use counterstep_steps::{Classify, RetryPolicy, ScratchFile, StepContext, StepResult};
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Film {
    height: u32,
    #[serde(default)]
    extras: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Probed {
    height: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Large(String);

pub(crate) struct Render;

#[distributed_task(name = "Render", queue = "render")]
impl Render {
    type Request = Film;
    type Response = Vec<String>;

    #[step(1, host = "worker")]
    #[pure]
    async fn probe(film: &Film) -> StepResult<Probed> {
        Ok(Probed {
            height: film.height,
        })
    }

    #[step(2, host = "worker", group = "renditions", when = is_4k, no_undo = "test")]
    async fn in_4k(_ctx: &StepContext) -> StepResult<Large> {
        Ok(Large("4k".to_owned()))
    }

    fn is_4k(film: &Film, probed: &Probed) -> bool {
        probed.height >= 2160 && film.height == probed.height
    }

    #[step(3, host = "worker", group = "renditions", no_undo = "test", when = is_anything)]
    async fn in_720p(_ctx: &StepContext) -> StepResult<String> {
        Ok("720p".to_owned())
    }

    fn is_anything(probe: &Probed) -> bool {
        probe.height > 0
    }

    // Reads what may have been skipped.
    #[step(4, host = "worker", no_undo = "test", when = has_large_extras)]
    async fn extras(large: Option<&Large>) -> StepResult<u8> {
        Ok(large.map_or(0, |_| 1))
    }

    fn has_large_extras(film: &Film, large: Option<&Large>) -> bool {
        film.extras && large.is_some()
    }

    fn respond(
        large: Option<&Large>,
        in_720p: Option<&String>,
        extras: Option<&u8>,
    ) -> Vec<String> {
        let extras = extras.map(|count| format!("{count} extra"));
        large
            .map(|large| large.0.clone())
            .into_iter()
            .chain(in_720p.cloned())
            .chain(extras)
            .collect()
    }
}

async fn rendered(height: u32, extras: bool, trail: &str) -> serde_json::Value {
    let form = Form::new().field("height", height).field("extras", extras);
    let task = Harness::embedded(only::<Render>()).submit(form).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let record = task.record().await;
    let skipped = record
        .steps
        .iter()
        .filter(|row| row.status == StepStatus::Skipped)
        .count();
    assert_eq!(
        skipped,
        trail.matches("skipped").count(),
        "{}",
        task.trail().await
    );
    if !trail.is_empty() {
        task.assert_trail(trail).await;
    }
    record.task.response.expect("a response")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_a_group_is_skipped_by_what_an_earlier_step_found() {
    let trail = "probe ok, in_4k skipped, in_720p ok, extras skipped, completed";
    assert_eq!(rendered(1080, true, trail).await, json!(["720p"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_condition_reads_what_another_condition_may_have_skipped() {
    assert_eq!(
        rendered(2160, true, "").await,
        json!(["4k", "720p", "1 extra"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_may_be_skipped_whole() {
    let trail = "probe ok, in_4k skipped, in_720p skipped, extras skipped, completed";
    assert_eq!(rendered(0, false, trail).await, json!([]));
}

const SLEEPY: RetryPolicy = RetryPolicy::constant("2s").max_retries(1).jitter(false);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Frames {
    file: ScratchFile,
    height: u32,
}

/// Its first step finds out another height each time, where it is to.
pub(crate) struct Cut;

#[distributed_task(name = "Cut", queue = "render")]
impl Cut {
    type Request = Film;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "scratch only")]
    async fn read_frames(ctx: &StepContext, film: &Film) -> StepResult<Frames> {
        let draft = ctx.scratch("frames.bin").await?;
        std::fs::write(draft.path(), "frames").transient("writing")?;
        let file = draft.seal().await?;
        let height = film.height + ctx.attempt().0.unsigned_abs() - 1;
        Ok(Frames { file, height })
    }

    #[step(2, host = "worker", no_undo = "test", when = is_4k)]
    async fn scale(_ctx: &StepContext) -> StepResult<Large> {
        Ok(Large("4k".to_owned()))
    }

    fn is_4k(frames: &Frames) -> bool {
        frames.height >= 2160
    }

    #[step(3, host = "worker", retry = SLEEPY, no_undo = "test")]
    async fn encode(frames: &Frames) -> StepResult<u32> {
        Ok(frames.height)
    }

    fn respond(encode: &u32) -> u32 {
        *encode
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_by_which_a_step_was_skipped_stands() {
    let task = Harness::embedded(only::<Cut>())
        .fault(Fault::at("encode", FaultKind::FailTransiently).on_attempt(1))
        .submit(Form::new().field("height", 2159))
        .await;
    task.run_to_wait().await;
    let scratch = &task.engine.ports.scratch;
    scratch.remove(task.id).await.expect("the scratch goes");
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail(
        "read_frames ok, scale skipped, encode retries, read_frames rebuilt, encode ok, completed",
    )
    .await;
    // Made again, the file is the same; what stands beside it is what the step was skipped by.
    let record = task.record().await;
    assert_eq!(record.task.response, Some(json!(2159)));
}
