//! A task without a step.
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

    fn respond(_order: &Order) -> Done {
        Done
    }
}

fn main() {}
