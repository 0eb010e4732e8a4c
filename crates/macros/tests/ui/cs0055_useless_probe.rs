//! A probe of a step that is pure, and one of a built-in step.
use counterstep_steps::{Probe, StepResult, StoredFile, UndoResult, UploadMany};
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;
#[derive(Serialize, Deserialize)]
pub struct Receipt;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Order;

    #[step(1, host = "worker", probe = look)]
    #[pure]
    async fn count() -> StepResult<u32> {
        Ok(1)
    }

    #[step(2, host = "worker", probe = look)]
    fn upload(_order: &Order) -> UploadMany {
        UploadMany::to::<StoredFile>("bucket", &[])
    }

    async fn look() -> StepResult<Probe<u32>> {
        Ok(Probe::Unknown)
    }

    #[step(3, host = "worker", undo = refund)]
    async fn charge() -> StepResult<Receipt> {
        Ok(Receipt)
    }

    async fn refund(_receipt: Option<Receipt>) -> UndoResult {
        Ok(())
    }

    fn respond(_order: &Order) -> Order {
        Order
    }
}

fn main() {}
