//! Timers, signals with and without a body that must come, fallbacks of custom and built-in steps,
//! conditions on outputs.
#![deny(warnings)]

use counterstep_macros::distributed_task;
use counterstep_steps::contracts::{UndoDecl, WaitDecl};
use counterstep_steps::{
    AwaitSignal, DistributedTask as _, MaybeSignal, Sleep, Slept, StepContext, StepResult,
    UndoResult,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order {
    pub patience: String,
}
#[derive(Serialize, Deserialize)]
pub struct Probe(bool);
#[derive(Serialize, Deserialize)]
pub struct Approval {
    pub by: String,
}
type Asked = AwaitSignal<u64>;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Option<String>;

    #[step(1, host = "worker", fallback = guess)]
    #[pure]
    async fn probe(ctx: &StepContext, _order: &Order) -> StepResult<Probe> {
        let _ = ctx;
        Ok(Probe(true))
    }

    // Inputs of its own, by type and with a context; an alias for what it gives.
    async fn guess(
        _ctx: &StepContext,
        order: &Order,
    ) -> Result<self::Probe, counterstep_steps::StepError> {
        Ok(Probe(order.patience.is_empty()))
    }

    #[step(2, host = "worker")]
    fn cool_off(order: &Order) -> Sleep {
        Sleep::for_(&order.patience)
    }

    #[step(3, host = "worker", when = is_large, fallback = by_rule, group = "ask", undo = withdraw)]
    fn approval(_slept: &Slept) -> AwaitSignal<Approval> {
        AwaitSignal::within("72h")
    }

    async fn by_rule(probe: &Probe) -> StepResult<Approval> {
        Ok(Approval {
            by: format!("rule {}", probe.0),
        })
    }

    async fn withdraw(_out: Option<Approval>) -> UndoResult {
        Ok(())
    }

    fn is_large(order: &Order, probe: &Probe, cool_off: &Slept) -> bool {
        probe.0 && order.patience != cool_off.due_at
    }

    #[step(4, host = "worker", group = "ask")]
    fn remark(_order: &Order) -> MaybeSignal<String> {
        AwaitSignal::within("1h").or_none()
    }

    #[step(5, host = "api")]
    fn number(_order: &Order) -> Asked {
        AwaitSignal::whenever()
    }

    fn respond(
        approval: Option<&Approval>,
        remark: &Option<String>,
        number: &u64,
    ) -> Option<String> {
        let _ = (approval, number);
        remark.clone()
    }
}

pub fn main() {
    let steps = Task::task_type().decl.steps;
    let waits: Vec<_> = steps.iter().map(|step| step.waits).collect();
    let signal = |optional| Some(WaitDecl::Signal { optional });
    assert_eq!(
        waits,
        [
            None,
            Some(WaitDecl::Timer),
            signal(false),
            signal(true),
            signal(false)
        ]
    );
    let outputs: Vec<_> = steps.iter().map(|step| step.output).collect();
    assert_eq!(
        outputs,
        [
            "Probe",
            "Slept",
            "Approval",
            "Option<String>",
            "the body of its signal"
        ]
    );
    assert_eq!(steps[1].undo, UndoDecl::Pure);
    assert_eq!(steps[2].undo, UndoDecl::Function { name: "withdraw" });
    let fallback = steps[2].fallback.unwrap();
    assert_eq!(
        (fallback.name, fallback.inputs[0].source),
        ("by_rule", "probe")
    );
    assert!(steps[2].reads("cool_off") && steps[2].reads("probe") && !steps[2].reads("remark"));
}
