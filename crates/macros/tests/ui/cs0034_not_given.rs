//! No earlier step gives the type: no step at all, or a later one.
use counterstep_steps::StepResult;
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;
#[derive(Serialize, Deserialize)]
pub struct Receipt;
#[derive(Serialize, Deserialize)]
pub struct Done;
#[derive(Serialize, Deserialize)]
pub struct Pick;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api", no_undo = "test")]
    async fn charge(_order: &Order) -> StepResult<Receipt> {
        Ok(Receipt)
    }

    #[step(2, host = "api", no_undo = "test")]
    async fn tell(_pick: &Pick, _later: &u64) -> StepResult<()> {
        Ok(())
    }

    #[step(3, host = "api", no_undo = "test")]
    async fn count() -> StepResult<u64> {
        Ok(1)
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
