//! A built-in step that is async.
use counterstep_steps::UploadMany;
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

    #[step(1, host = "api")]
    async fn upload(_order: &Order) -> UploadMany {
        UploadMany::to::<counterstep_steps::StoredFile>("bucket", &[])
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
