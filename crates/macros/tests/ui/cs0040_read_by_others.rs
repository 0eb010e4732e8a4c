//! A step that forgets the result, read by three others: one mistake.
use counterstep_macros::distributed_task;
use counterstep_steps::{StepResult, UndoResult};
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
    async fn charge(_order: &Order) -> Receipt {
        Receipt
    }

    async fn refund(_out: Option<Receipt>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", no_undo = "test")]
    async fn tell(_receipt: &Receipt) -> StepResult<()> {
        Ok(())
    }

    fn respond(_receipt: &Receipt) -> Done {
        Done
    }
}

fn main() {}
