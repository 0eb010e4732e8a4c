//! Labels whose name is none, that stand there twice, or that are made of nothing that can be read.
use counterstep_macros::distributed_task;
use counterstep_steps::StepResult;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order {
    id: u32,
}
#[derive(Serialize, Deserialize)]
pub struct Done;

pub struct Task;

#[distributed_task(label(Order = "req.id", order = "req.id", order = "7", "a b" = "req.id", number = 7, text = "req."))]
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

pub struct Other;

#[distributed_task(label = "order")]
impl Other {
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
