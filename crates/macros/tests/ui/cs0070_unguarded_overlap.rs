//! A step that goes on beside another host, and has no key by which its effects are the same.
use counterstep_steps::StepResult;
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;
#[derive(Serialize, Deserialize)]
pub struct Done;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "worker", no_undo = "letters cannot be called back", when_cut_off = "finish")]
    async fn post_letter(_order: &Order) -> StepResult<u32> {
        Ok(1)
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
