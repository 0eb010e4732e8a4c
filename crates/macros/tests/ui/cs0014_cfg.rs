//! Parts of the declaration that come and go.
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
    #[cfg(unix)]
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api", no_undo = "test")]
    #[cfg(unix)]
    async fn charge(_order: &Order) -> StepResult<Receipt> {
        Ok(Receipt)
    }

    #[step(2, host = "api", no_undo = "test")]
    async fn tell(#[cfg(unix)] _order: &Order) -> StepResult<()> {
        Ok(())
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
