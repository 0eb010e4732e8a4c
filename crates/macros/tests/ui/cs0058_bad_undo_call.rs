//! An undo that is a plain function and returns no call.
use counterstep_steps::{HttpCall, StepContext};
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;
#[derive(Serialize, Deserialize)]
pub struct Receipt;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Order;

    #[step(1, host = "worker", undo = refund)]
    fn charge(_order: &Order) -> HttpCall<Receipt> {
        HttpCall::post("bank", "/charges")
    }

    fn refund(_ctx: &StepContext, _receipt: Option<Receipt>) -> u8 {
        1
    }

    fn respond(_order: &Order) -> Order {
        Order
    }
}

fn main() {}
