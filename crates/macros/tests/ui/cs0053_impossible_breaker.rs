//! A breaker that its constructors would refuse.
use counterstep_steps::{BreakerPolicy, StepResult};
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;
#[derive(Serialize, Deserialize)]
pub struct Receipt;
#[derive(Serialize, Deserialize)]
pub struct Done;

const ODD: BreakerPolicy = BreakerPolicy { after_failures: 0, ..BreakerPolicy::named("payments") };

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api", no_undo = "test", breaker = ODD)]
    async fn charge(_order: &Order) -> StepResult<Receipt> {
        Ok(Receipt)
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
