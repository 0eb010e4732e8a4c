//! State that is not lent, may be missing, or is asked for where nothing but outputs is read.
use counterstep_steps::{State, StepResult};
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;
#[derive(Serialize, Deserialize)]
pub struct Receipt;
#[derive(Serialize, Deserialize)]
pub struct Done;

pub struct Bank;
pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Done;

    #[step(1, host = "api", no_undo = "test")]
    async fn charge(bank: State<Bank>, other: &mut State<Bank>, third: Option<&State<Bank>>) -> StepResult<Receipt> {
        let _ = (bank, other, third);
        Ok(Receipt)
    }

    fn respond(_order: &Order, _bank: &State<Bank>) -> Done {
        Done
    }
}

fn main() {}
