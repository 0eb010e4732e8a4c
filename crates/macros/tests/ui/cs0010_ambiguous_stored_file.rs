//! Two built-in steps give the type that a parameter goes by.
use counterstep_steps::{StepResult, UploadOne, UploadedFile};
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order {
    front: UploadedFile,
}
#[derive(Serialize, Deserialize)]
pub struct Receipt;
#[derive(Serialize, Deserialize)]
pub struct Done;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api")]
    fn upload_front(order: &Order) -> UploadOne {
        UploadOne::to("bucket", &order.front)
    }

    #[step(2, host = "api")]
    fn upload_back(order: &Order) -> UploadOne {
        UploadOne::to("bucket", &order.front)
    }

    #[step(3, host = "worker", no_undo = "test")]
    async fn read(file: &counterstep_steps::StoredFile) -> StepResult<()> {
        let _ = file;
        Ok(())
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
