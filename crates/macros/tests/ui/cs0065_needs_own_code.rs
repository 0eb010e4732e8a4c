//! A heartbeat of a built-in step.
use counterstep_macros::distributed_task;
use counterstep_steps::{StoredFile, UploadMany};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Order;

    #[step(1, host = "worker", heartbeat = "30s")]
    fn upload(_order: &Order) -> UploadMany {
        UploadMany::to::<StoredFile>("bucket", &[])
    }

    fn respond(_order: &Order) -> Order {
        Order
    }
}

fn main() {}
