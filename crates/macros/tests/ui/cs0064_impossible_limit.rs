//! A limit that limits nothing.
use counterstep_steps::{Limit, StepResult};
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;
#[derive(Serialize, Deserialize)]
pub struct Receipt;
#[derive(Serialize, Deserialize)]
pub struct Done;

const ODD: Limit = Limit::named("payments");

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api", no_undo = "test", limit = ODD)]
    async fn charge(_order: &Order) -> StepResult<Receipt> {
        Ok(Receipt)
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
