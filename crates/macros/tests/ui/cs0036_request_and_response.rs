//! Local files do not come from clients and do not go there.
use counterstep_steps::{ScratchFile, StepResult};
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

#[derive(Serialize, Deserialize)]
pub struct Parcel {
    pub archive: Archive,
}

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Archive;
    type Response = Parcel;

    #[step(1, host = "api", no_undo = "test")]
    async fn tell() -> StepResult<()> {
        Ok(())
    }

    fn respond() -> Parcel {
        loop {}
    }
}

fn main() {}
