//! A policy that its constructors would refuse.
use counterstep_steps::{RetryPolicy, StepResult};
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;
#[derive(Serialize, Deserialize)]
pub struct Receipt;
#[derive(Serialize, Deserialize)]
pub struct Done;

const ODD: RetryPolicy = RetryPolicy { base: std::time::Duration::ZERO, ..RetryPolicy::NONE };

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api", no_undo = "test", retry = ODD)]
    async fn charge(_order: &Order) -> StepResult<Receipt> {
        Ok(Receipt)
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
