//! A probe that is not there, and one that is a step.
use counterstep_steps::{StepResult, UndoResult};
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

    #[step(1, host = "worker", undo = refund, probe = look)]
    async fn charge() -> StepResult<Receipt> {
        Ok(Receipt)
    }

    #[step(2, host = "worker", undo = refund, probe = charge)]
    async fn again() -> StepResult<Receipt> {
        Ok(Receipt)
    }

    async fn refund(_receipt: Option<Receipt>) -> UndoResult {
        Ok(())
    }

    fn respond(_order: &Order) -> Order {
        Order
    }
}

fn main() {}
