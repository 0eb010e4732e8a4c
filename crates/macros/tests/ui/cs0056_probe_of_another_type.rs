//! A probe that finds another type than its step gives.
use counterstep_steps::{Probe, StepResult, UndoResult};
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

    async fn look() -> StepResult<Probe<String>> {
        Ok(Probe::Unknown)
    }

    async fn refund(_receipt: Option<Receipt>) -> UndoResult {
        Ok(())
    }

    fn respond(_order: &Order) -> Order {
        Order
    }
}

fn main() {}
