//! Calls as steps, as undos, and with probes; by their own name and by another one.
#![deny(warnings)]

use counterstep_macros::distributed_task;
use counterstep_steps::contracts::UndoDecl;
use counterstep_steps::{
    DistributedTask as _, HttpCall, Probe, StepContext, StepResult, UndoResult,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order {
    pub amount_cents: u64,
}
#[derive(Serialize, Deserialize)]
pub struct Charge {
    pub id: String,
}
type Looked = HttpCall<Vec<u8>>;
type Back = HttpCall<()>;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = String;

    #[step(1, host = "worker", undo = refund, probe = find)]
    fn charge(order: &Order) -> HttpCall<Charge> {
        HttpCall::post("bank", "/charges").json(order)
    }

    // With a context, and with the output of its step.
    fn refund(ctx: &StepContext, charge: Option<Charge>, order: &Order) -> HttpCall<()> {
        let _ = (charge, order);
        HttpCall::delete("bank", "/charges")
            .segment(ctx.step_key())
            .accepting(404)
    }

    async fn find(ctx: &StepContext) -> StepResult<Probe<Charge>> {
        let found: Option<Charge> = ctx
            .call(HttpCall::get("bank", "/charges").segment(ctx.step_key()))
            .await?;
        Ok(found.map_or(Probe::NothingHappened, Probe::Done))
    }

    #[step(2, host = "api", when = is_large, no_undo = "reads only")]
    fn look(charge: &Charge) -> Looked {
        HttpCall::get("bank", "/charges").segment(&charge.id)
    }

    fn is_large(order: &Order) -> bool {
        order.amount_cents > 100
    }

    #[step(3, host = "worker")]
    fn ship(_look: Option<&Vec<u8>>) -> HttpCall<String> {
        HttpCall::post("carrier", "/shipments")
    }

    // By another name, without anything to read, and marked.
    #[undo(ship)]
    fn recall() -> Back {
        HttpCall::delete("carrier", "/shipments")
    }

    #[step(4, host = "worker", undo = unsay)]
    fn say() -> HttpCall<()> {
        HttpCall::put("carrier", "/said")
    }

    async fn unsay(ctx: &StepContext, _said: Option<()>) -> UndoResult {
        ctx.call(HttpCall::<()>::delete("carrier", "/said")).await
    }

    fn respond(ship: &String) -> String {
        ship.clone()
    }
}

pub fn main() {
    let steps = Task::task_type().decl.steps;
    let outputs: Vec<_> = steps.iter().map(|step| step.output).collect();
    assert_eq!(
        outputs,
        ["Charge", "the answer of its service", "String", "()"]
    );
    assert_eq!(steps[0].undo, UndoDecl::Function { name: "refund" });
    assert_eq!(steps[0].probe, Some("find"));
    assert_eq!(
        steps[1].undo,
        UndoDecl::Waived {
            reason: "reads only"
        }
    );
    assert_eq!(steps[2].undo, UndoDecl::Function { name: "recall" });
}
