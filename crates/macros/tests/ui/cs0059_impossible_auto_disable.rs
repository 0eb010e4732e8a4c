//! An `auto_disable` policy that its constructors would refuse.
use counterstep_steps::{AutoDisable, StepResult};
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;
#[derive(Serialize, Deserialize)]
pub struct Receipt;
#[derive(Serialize, Deserialize)]
pub struct Done;

const ODD: AutoDisable = AutoDisable { after_failures: 0, ..AutoDisable::after_failures(5) };

pub struct Task;

#[distributed_task(auto_disable = ODD)]
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
