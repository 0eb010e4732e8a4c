//! A task type with one of everything: a group, a condition, both hosts, policies, undos that can
//! be told to fail.

use counterstep_macros::distributed_task;
use counterstep_steps::{
    DistributedTask, Registry, RetryPolicy, StepContext, StepError, StepResult, UndoResult,
};
use counterstep_testkit::clock::work_for;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the errand is told to do.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ErrandRequest {
    /// Whether to wrap the goods.
    pub(crate) wrapped: bool,
    /// How long `pick` takes, in milliseconds; it heeds its cancel token.
    pub(crate) pick_ms: u64,
    /// How often `deliver` is told to come back later.
    pub(crate) busy_times: i32,
}

/// A step's receipt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Goods(pub(crate) String);

/// Another one: the inputs of a step go by type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Paid(pub(crate) String);

/// What comes out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) goods: String,
    pub(crate) paid: String,
    pub(crate) paper: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Paper(pub(crate) String);

pub(crate) const QUICK: RetryPolicy = RetryPolicy::constant("20ms").max_retries(2);
pub(crate) const SLOW: RetryPolicy = RetryPolicy::constant("1500ms").max_retries(2).jitter(false);

pub(crate) struct Errand;

#[distributed_task(name = "Errand", queue = "errands", max_recoveries = 1, cancellable)]
impl Errand {
    type Request = ErrandRequest;
    type Response = Done;

    #[step(1, host = "api", undo = forget)]
    async fn note(ctx: &StepContext) -> StepResult<String> {
        Ok(ctx.effect_key())
    }

    async fn forget(ctx: &StepContext, out: Option<String>) -> UndoResult {
        // The undo's key is the step's with a suffix, and the same on each attempt.
        match out {
            Some(key) if ctx.effect_key() != format!("{key}:undo") => {
                Err(StepError::permanent("another step's key"))
            }
            _ => Ok(()),
        }
    }

    #[step(2, host = "worker", group = "errand", retry = QUICK, undo = put_back)]
    async fn pick(ctx: &StepContext, req: &ErrandRequest) -> StepResult<Goods> {
        let work = work_for(ctx.task_id(), Duration::from_millis(req.pick_ms));
        tokio::select! {
            () = work => Ok(Goods("apples".to_owned())),
            _ = ctx.cancel().cancelled() => Err(StepError::cancelled()),
        }
    }

    async fn put_back(_ctx: &StepContext, _out: Option<Goods>) -> UndoResult {
        Ok(())
    }

    #[step(3, host = "worker", group = "errand", retry = QUICK, undo = refund, undo_retry = QUICK)]
    async fn pay(_ctx: &StepContext) -> StepResult<Paid> {
        Ok(Paid("3.20".to_owned()))
    }

    async fn refund(_ctx: &StepContext, _out: Option<Paid>) -> UndoResult {
        Ok(())
    }

    #[step(4, host = "worker", when = wants_paper, no_undo = "paper is cheap")]
    async fn wrap(_ctx: &StepContext, goods: &Goods) -> StepResult<Paper> {
        Ok(Paper(format!("around {}", goods.0)))
    }

    fn wants_paper(req: &ErrandRequest) -> bool {
        req.wrapped
    }

    #[step(5, host = "worker", retry = SLOW, undo = fetch_back)]
    async fn deliver(ctx: &StepContext, req: &ErrandRequest, paid: &Paid) -> StepResult<u32> {
        if ctx.attempt().0 <= req.busy_times {
            return Err(StepError::transient(format_args!(
                "busy, {} in hand",
                paid.0
            )));
        }
        Ok(7)
    }

    async fn fetch_back(_ctx: &StepContext, _out: Option<u32>) -> UndoResult {
        Ok(())
    }

    fn respond(goods: &Goods, paid: &Paid, wrap: Option<&Paper>) -> Done {
        Done {
            goods: goods.0.clone(),
            paid: paid.0.clone(),
            paper: wrap.map(|paper| paper.0.clone()),
        }
    }
}

/// Two steps with other policies: one leaves what it did, one asks a person.
pub(crate) struct Stubborn;

#[distributed_task(name = "Stubborn", queue = "stubborn", on_undo_failure = "continue")]
impl Stubborn {
    type Request = ErrandRequest;
    type Response = u32;

    #[step(1, host = "worker", undo = undo_one)]
    async fn one(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    async fn undo_one(_ctx: &StepContext, _out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", on_exhausted = "fail", undo = undo_two, undo_retry = QUICK)]
    async fn two(_ctx: &StepContext) -> StepResult<u64> {
        Ok(2)
    }

    async fn undo_two(_ctx: &StepContext, _out: Option<u64>) -> UndoResult {
        Ok(())
    }

    #[step(3, host = "worker", on_exhausted = "dead_letter", undo = undo_three)]
    async fn three(_ctx: &StepContext, one: &u32) -> StepResult<String> {
        Ok(one.to_string())
    }

    async fn undo_three(_ctx: &StepContext, _out: Option<String>) -> UndoResult {
        Ok(())
    }

    #[step(4, host = "worker", retry = SLOW, undo = undo_four)]
    async fn four(_ctx: &StepContext) -> StepResult<bool> {
        Ok(true)
    }

    async fn undo_four(_ctx: &StepContext, _out: Option<bool>) -> UndoResult {
        Ok(())
    }

    fn respond(one: &u32) -> u32 {
        *one
    }
}

const HOURLY: RetryPolicy = RetryPolicy::constant("1h").max_retries(2);

/// In a hurry: long enough for a busy machine to come to its last step, short enough to wait for.
pub(crate) struct Hasty;

#[distributed_task(name = "Hasty", queue = "hasty", timeout = "4s")]
impl Hasty {
    type Request = ErrandRequest;
    type Response = u32;

    #[step(1, host = "worker", on_exhausted = "dead_letter", undo = undo_one)]
    async fn one(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    async fn undo_one(_ctx: &StepContext, _out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", retry = HOURLY, undo = undo_two)]
    async fn two(_ctx: &StepContext) -> StepResult<bool> {
        Ok(true)
    }

    async fn undo_two(_ctx: &StepContext, _out: Option<bool>) -> UndoResult {
        Ok(())
    }

    fn respond(one: &u32) -> u32 {
        *one
    }
}

/// A registry with this type alone.
pub(crate) fn only<T: DistributedTask>() -> Registry {
    Registry::new().with::<T>()
}
