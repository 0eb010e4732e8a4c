//! Values that keys cannot have.
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

#[distributed_task(version = 0, cancellable = true, on_undo_failure = "halt", max_recoveries = "2", on_lost = "x")]
impl Task {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "moon", no_undo = 3, retry = three(), undo, on_exhausted = compensate)]
    async fn charge(_order: &Order) -> StepResult<Receipt> {
        Ok(Receipt)
    }

    #[undo]
    async fn refund() -> UndoResult {
        Ok(())
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
