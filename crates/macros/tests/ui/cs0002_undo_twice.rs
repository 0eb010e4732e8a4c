//! A step that says three times how it is undone.
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

    #[step(1, host = "api", no_undo = "test", undo = refund)]
    #[pure]
    async fn charge(_order: &Order) -> StepResult<Receipt> {
        Ok(Receipt)
    }

    async fn refund() -> UndoResult {
        Ok(())
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
