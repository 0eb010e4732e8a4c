//! Parameters that cannot be read.
use counterstep_steps::{StepContext, StepResult, UndoResult, UploadMany};
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

    #[step(1, host = "api", no_undo = "test")]
    async fn charge(order: Order, more: &mut Order, (a, b): &(u8, u8), out: Option<Receipt>, ctx: StepContext) -> StepResult<()> {
        let _ = (order, more, a, b, out, ctx);
        Ok(())
    }

    #[step(2, host = "api")]
    fn upload(_ctx: &StepContext) -> UploadMany {
        UploadMany::to::<counterstep_steps::StoredFile>("bucket", &[])
    }

    #[undo(upload)]
    async fn remove(_out: Option<Receipt>, _again: Option<Receipt>) -> UndoResult {
        Ok(())
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
