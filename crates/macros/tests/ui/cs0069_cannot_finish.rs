//! Steps that are to go on when their worker is cut off, and cannot.
use counterstep_steps::{Limit, StepResult};
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;
#[derive(Serialize, Deserialize)]
pub struct Done;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api", when_cut_off = "finish")]
    #[pure]
    async fn look(_order: &Order) -> StepResult<u32> {
        Ok(1)
    }

    #[step(2, host = "worker", limit = BANK, when_cut_off = "finish")]
    #[pure]
    async fn weigh(_order: &Order) -> StepResult<u64> {
        Ok(1)
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

const BANK: Limit = Limit::named("bank").at_once(10);

pub struct Once;

#[distributed_task(on_lost = "fail")]
impl Once {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "worker", when_cut_off = "finish")]
    #[pure]
    async fn look(_order: &Order) -> StepResult<u32> {
        Ok(1)
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
