//! Names that would split a subject.
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

#[distributed_task(name = "Place.Order", queue = "2 fast")]
impl Task {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api", no_undo = "test")]
    async fn charge(_order: &Order) -> StepResult<Receipt> {
        Ok(Receipt)
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
