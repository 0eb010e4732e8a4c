//! Older tasks are to be cancelled for newer ones, and clients may not cancel them.
use counterstep_macros::distributed_task;
use counterstep_steps::StepResult;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order {
    customer: String,
}
#[derive(Serialize, Deserialize)]
pub struct Done;

pub struct Task;

#[distributed_task(key = "req.customer", at_once = 1, beyond = "replace")]
impl Task {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api")]
    #[pure]
    async fn look(_order: &Order) -> StepResult<()> {
        Ok(())
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

pub struct Delayed;

#[distributed_task(key = "req.customer", at_once = 1, debounce = "5s")]
impl Delayed {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api")]
    #[pure]
    async fn look(_order: &Order) -> StepResult<()> {
        Ok(())
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
