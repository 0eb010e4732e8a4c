//! An undo that takes another output.
use counterstep_steps::{StepResult, UndoResult};
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;
#[derive(Serialize, Deserialize)]
pub struct Receipt;
#[derive(Serialize, Deserialize)]
pub struct Done;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api", undo = refund)]
    async fn charge(_order: &Order) -> StepResult<Receipt> {
        Ok(Receipt)
    }

    async fn refund(_out: Option<Order>) -> UndoResult {
        Ok(())
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
