//! A call that does not say how it is undone, by its own name and by another one.
use counterstep_steps::HttpCall;
use counterstep_macros::distributed_task;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order;
#[derive(Serialize, Deserialize)]
pub struct Receipt;

type Charge = HttpCall<u32>;

pub struct Task;

#[distributed_task]
impl Task {
    type Request = Order;
    type Response = Order;

    #[step(1, host = "worker")]
    fn reserve(_order: &Order) -> HttpCall<Receipt> {
        HttpCall::post("inventory", "/reservations")
    }

    #[step(2, host = "worker")]
    fn charge(_receipt: &Receipt) -> Charge {
        HttpCall::post("bank", "/charges")
    }

    #[step(3, host = "worker", no_undo = "reads only")]
    fn look() -> HttpCall<String> {
        HttpCall::get("bank", "/state")
    }

    fn respond(_order: &Order) -> Order {
        Order
    }
}

fn main() {}
