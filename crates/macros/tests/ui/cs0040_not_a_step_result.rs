//! A custom step that returns something else.
use counterstep_steps::StepResult;
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

    #[step(1, host = "api", no_undo = "test")]
    async fn charge(_order: &Order) -> Receipt {
        Receipt
    }

    #[step(2, host = "api", no_undo = "test")]
    async fn tell() -> StepResult<()> {
        Ok(())
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
