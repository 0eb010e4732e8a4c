//! A bound on the memory of a step that shares its process.
use counterstep_macros::distributed_task;
use counterstep_steps::StepResult;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Order;

    #[step(1, host = "worker", memory = "512MiB", no_undo = "test")]
    async fn decode(_order: &Order) -> StepResult<u32> {
        Ok(1)
    }

    fn respond(_order: &Order) -> Order {
        Order
    }
}

fn main() {}
