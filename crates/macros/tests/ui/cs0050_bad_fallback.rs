//! Fallbacks that are not there, not async, another step, or give nothing.
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
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api", no_undo = "test", fallback = nowhere)]
    async fn charge(_order: &Order) -> StepResult<Receipt> {
        Ok(Receipt)
    }

    #[step(2, host = "api", no_undo = "test", fallback = blocks)]
    async fn check(_order: &Order) -> StepResult<u8> {
        Ok(1)
    }

    fn blocks(_order: &Order) -> StepResult<u8> {
        Ok(1)
    }

    #[step(3, host = "api", no_undo = "test", fallback = charge)]
    async fn tell(_order: &Order) -> StepResult<u16> {
        Ok(1)
    }

    #[step(4, host = "api", no_undo = "test", fallback = silent)]
    async fn shout(_order: &Order) -> StepResult<()> {
        Ok(())
    }

    async fn silent(_order: &Order) {}

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
