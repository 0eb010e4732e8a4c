//! What is measured: a task of three trivial steps, each with an output of 200 bytes that is
//! committed; and one whose third step fails, so that two are undone.

use counterstep_macros::distributed_task;
use counterstep_steps::{Registry, StepContext, StepError, StepResult, UndoResult};
use serde::{Deserialize, Serialize};

/// Bytes of each output.
const SIZE: usize = 200;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BenchRequest {
    text: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct First(String);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Second(String);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Third(String);

fn filled(with: &str) -> String {
    with.chars().cycle().take(SIZE).collect()
}

/// Three trivial steps over both kinds of host.
pub(crate) struct Bench;

#[distributed_task(name = "Bench", queue = "bench")]
impl Bench {
    type Request = BenchRequest;
    type Response = usize;

    #[step(1, host = "api")]
    #[pure]
    async fn first(req: &BenchRequest) -> StepResult<First> {
        Ok(First(filled(&req.text)))
    }

    #[step(2, host = "worker", no_undo = "it touches nothing")]
    async fn second(first: &First) -> StepResult<Second> {
        Ok(Second(filled(&first.0)))
    }

    #[step(3, host = "worker", no_undo = "it touches nothing")]
    async fn third(second: &Second) -> StepResult<Third> {
        Ok(Third(filled(&second.0)))
    }

    fn respond(third: &Third) -> usize {
        third.0.len()
    }
}

/// Two steps to undo, and a third that fails for good.
pub(crate) struct BenchFails;

#[distributed_task(name = "BenchFails", queue = "bench")]
impl BenchFails {
    type Request = BenchRequest;
    type Response = usize;

    #[step(1, host = "worker", undo = undo_first)]
    async fn first(req: &BenchRequest) -> StepResult<First> {
        Ok(First(filled(&req.text)))
    }

    #[step(2, host = "worker", undo = undo_second)]
    async fn second(first: &First) -> StepResult<Second> {
        Ok(Second(filled(&first.0)))
    }

    #[step(3, host = "worker", no_undo = "it does nothing")]
    async fn third(_second: &Second) -> StepResult<Third> {
        Err(StepError::permanent("it fails, as it should"))
    }

    async fn undo_first(_ctx: &StepContext) -> UndoResult {
        Ok(())
    }

    async fn undo_second(_ctx: &StepContext) -> UndoResult {
        Ok(())
    }

    fn respond(third: &Third) -> usize {
        third.0.len()
    }
}

pub(crate) fn registry() -> Registry {
    Registry::new().with::<Bench>().with::<BenchFails>()
}

/// A request of it.
pub(crate) fn request() -> serde_json::Value {
    serde_json::json!({ "text": "counterstep " })
}
