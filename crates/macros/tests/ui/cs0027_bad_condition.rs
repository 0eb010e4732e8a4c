//! Conditions that are async or say neither yes nor no.
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

    #[step(1, host = "api", no_undo = "test", when = is_gift)]
    async fn charge(_order: &Order) -> StepResult<Receipt> {
        Ok(Receipt)
    }

    #[step(2, host = "api", no_undo = "test", when = is_big)]
    async fn tell() -> StepResult<()> {
        Ok(())
    }

    async fn is_gift() -> bool {
        true
    }

    fn is_big() -> u8 {
        1
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
