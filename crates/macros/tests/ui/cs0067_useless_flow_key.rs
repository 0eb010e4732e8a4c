//! Keys of flow control without the one that they need.
use counterstep_macros::distributed_task;
use counterstep_steps::StepResult;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order {
    customer: String,
}
#[derive(Serialize, Deserialize)]
pub struct Done;

pub struct Uncounted;

#[distributed_task(key = "req.customer", beyond = "refuse", debounce = "5s")]
impl Uncounted {
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

pub struct Keyless;

#[distributed_task(at_once = 1, beyond = "replace", cancellable)]
impl Keyless {
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

pub struct Refusing;

#[distributed_task(at_once = 1, beyond = "refuse", debounce = "5s", cancellable)]
impl Refusing {
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
