//! Keys of a probe that is not there.
use counterstep_steps::{RetryPolicy, StepResult, UndoResult};
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

    #[step(1, host = "worker", undo = refund, probe_retry = RetryPolicy::UNDO, on_probe_failure = "run_again")]
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
