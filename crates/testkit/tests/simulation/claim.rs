//! A claim that a person decides on, in two versions; and a watch that lasts until it is cancelled.

use counterstep_macros::distributed_task;
use counterstep_steps::{
    AwaitSignal, HttpCall, MaybeSignal, RetryPolicy, StepContext, StepError, StepResult, UndoResult,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Case {
    /// How long a person may take.
    within: String,
    /// The undo of its check gives up at its first attempts.
    is_stubborn: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Decision {
    pub(crate) pays: bool,
    pub(crate) by: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Reserved {
    receipt: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Paid {
    receipt: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Checked(bool);

const PATIENT: RetryPolicy = RetryPolicy::exponential("200ms").max_retries(6).cap("5s");
const HASTY: RetryPolicy = RetryPolicy::constant("300ms").max_retries(1);
const ONCE: RetryPolicy = RetryPolicy::constant("300ms").max_retries(0);

async fn undo_check(ctx: &StepContext, case: &Case) -> UndoResult {
    match case.is_stubborn && ctx.attempt().0 <= 2 {
        true => Err(StepError::permanent("a person has to look at it")),
        false => Ok(()),
    }
}

fn is_paid(decision: &Decision) -> StepResult<Checked> {
    match decision.pays {
        true => Ok(Checked(true)),
        false => Err(StepError::permanent("it is refused")),
    }
}

pub(crate) struct ClaimBefore;

#[distributed_task(
    name = "Claim",
    version = 1,
    queue = "claims",
    max_recoveries = 8,
    cancellable
)]
impl ClaimBefore {
    type Request = Case;
    type Response = String;

    #[step(1, host = "worker", retry = PATIENT, undo = release)]
    fn reserve(_case: &Case) -> HttpCall<Reserved> {
        HttpCall::post("bank", "/reserves").json(&json!({}))
    }

    fn release(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("bank", "/reserves").segment(ctx.step_key())
    }

    #[step(2, host = "worker")]
    fn decision(case: &Case) -> AwaitSignal<Decision> {
        AwaitSignal::within(&case.within)
    }

    #[step(3, host = "worker", retry = HASTY, undo = uncheck)]
    async fn check(decision: &Decision) -> StepResult<Checked> {
        is_paid(decision)
    }

    async fn uncheck(ctx: &StepContext, case: &Case, _out: Option<Checked>) -> UndoResult {
        undo_check(ctx, case).await
    }

    #[step(4, host = "worker", retry = ONCE, on_exhausted = "dead_letter", undo = take_back)]
    fn pay(_checked: &Checked) -> HttpCall<Paid> {
        HttpCall::post("bank", "/payouts").json(&json!({}))
    }

    fn take_back(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("bank", "/payouts").segment(ctx.step_key())
    }

    fn respond(reserved: &Reserved, paid: &Paid) -> String {
        format!("{} {}", reserved.receipt, paid.receipt)
    }
}

pub(crate) struct Claim;

#[distributed_task(
    name = "Claim",
    version = 2,
    queue = "claims",
    max_recoveries = 8,
    cancellable
)]
impl Claim {
    type Request = Case;
    type Response = String;

    #[step(1, host = "worker", retry = PATIENT, undo = release)]
    fn reserve(_case: &Case) -> HttpCall<Reserved> {
        HttpCall::post("bank", "/reserves").json(&json!({}))
    }

    fn release(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("bank", "/reserves").segment(ctx.step_key())
    }

    #[step(2, host = "worker")]
    fn decision(case: &Case) -> AwaitSignal<Decision> {
        AwaitSignal::within(&case.within)
    }

    #[step(3, host = "worker", retry = HASTY, undo = uncheck)]
    async fn check(decision: &Decision) -> StepResult<Checked> {
        is_paid(decision)
    }

    async fn uncheck(ctx: &StepContext, case: &Case, _out: Option<Checked>) -> UndoResult {
        undo_check(ctx, case).await
    }

    #[step(4, host = "worker")]
    fn remark(_checked: &Checked) -> MaybeSignal<String> {
        AwaitSignal::within("3s").or_none()
    }

    #[step(5, host = "worker", retry = ONCE, on_exhausted = "dead_letter", undo = take_back)]
    fn pay(_remark: &Option<String>) -> HttpCall<Paid> {
        HttpCall::post("bank", "/payouts").json(&json!({}))
    }

    fn take_back(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("bank", "/payouts").segment(ctx.step_key())
    }

    fn respond(reserved: &Reserved, paid: &Paid) -> String {
        format!("{} {}", reserved.receipt, paid.receipt)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Shift {
    seconds: u64,
}

pub(crate) struct Watch;

#[distributed_task(name = "Watch", queue = "watches", max_recoveries = 8, cancellable)]
impl Watch {
    type Request = Shift;
    type Response = u64;

    #[step(
        1,
        host = "worker",
        timeout = "150s",
        no_undo = "a watch is over when it is over"
    )]
    async fn stand(ctx: &StepContext, shift: &Shift) -> StepResult<u64> {
        for _ in 0..shift.seconds * 2 {
            if ctx.cancel().is_cancelled() {
                return Err(StepError::cancelled());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok(shift.seconds)
    }

    fn respond(stand: &u64) -> u64 {
        *stand
    }
}
