//! Keys for steps that run, on steps that wait.
use counterstep_steps::{AwaitSignal, RetryPolicy, Sleep, StepResult};
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

    #[step(1, host = "api", retry = PATIENT, timeout = "5s", fallback = charge_now)]
    fn cool_off(_order: &Order) -> Sleep {
        Sleep::for_("10m")
    }

    async fn charge_now(_order: &Order) -> StepResult<counterstep_steps::Slept> {
        unreachable!()
    }

    #[step(2, host = "api", timeout = "72h")]
    fn approval(_order: &Order) -> AwaitSignal<Receipt> {
        AwaitSignal::whenever()
    }

    fn respond(_order: &Order) -> Done {
        Done
    }
}

const PATIENT: RetryPolicy = RetryPolicy::constant("2s");

fn main() {}
