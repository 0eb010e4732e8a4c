//! A local file that would cross hosts: by type, by name, for an undo, for the response.
use counterstep_steps::{ScratchFile, StepContext, StepResult, UndoResult};
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;
#[derive(Serialize, Deserialize)]
pub struct Receipt;
#[derive(Serialize, Deserialize)]
pub struct Done;
#[derive(Serialize, Deserialize)]
pub struct Archive {
    pub zip: ScratchFile,
}
type Bundle = Archive;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api", no_undo = "test")]
    async fn make(ctx: &StepContext) -> StepResult<Archive> {
        Ok(Archive { zip: ctx.scratch("a").await?.seal().await? })
    }

    #[step(2, host = "worker", undo = forget)]
    async fn tell(_archive: &Bundle) -> StepResult<()> {
        Ok(())
    }

    #[step(3, host = "worker", no_undo = "test")]
    async fn say(make: &Archive) -> StepResult<()> {
        let _ = make;
        Ok(())
    }

    async fn forget(_archive: &Archive) -> UndoResult {
        Ok(())
    }

    fn respond(_archive: &Archive) -> Done {
        Done
    }
}

fn main() {}
