//! An order over three services: goods are reserved, the customer pays, the goods are shipped; or all
//! of it is taken back.

mod ledger;

use counterstep::prelude::*;
pub use ledger::Ledger;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(example = Order { account: "kim".into(), item: "lamp".into(), cents: 4_000 })]
pub struct Order {
    pub account: String,
    pub item: String,
    pub cents: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Reservation {
    pub shelf: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Charge {
    pub receipt: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Shipment {
    pub tracking: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Confirmation {
    pub receipt: String,
    pub tracking: String,
}

/// What a service says with 5xx, or does not say, may pass.
const PATIENT: RetryPolicy = RetryPolicy::exponential("200ms").max_retries(5).cap("10s");

/// Orders wait while the bank is down, instead of failing one after the other.
const BANK: BreakerPolicy = BreakerPolicy::named("bank");

pub struct PlaceOrder;

/// Each call carries `Idempotency-Key: {task}:{step}`, the same on every attempt; by the same key its
/// undo names what it takes back, also where the answer was lost.
#[distributed_task(cancellable, timeout = "1d")]
impl PlaceOrder {
    type Request = Order;
    type Response = Confirmation;

    #[step(1, host = "worker", retry = PATIENT, undo = release)]
    fn reserve(order: &Order) -> HttpCall<Reservation> {
        HttpCall::post("inventory", "/reservations").json(&json!({ "item": order.item }))
    }

    fn release(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("inventory", "/reservations").segment(ctx.step_key())
    }

    #[step(2, host = "worker", retry = PATIENT, breaker = BANK, undo = refund)]
    fn charge(order: &Order, _goods: &Reservation) -> HttpCall<Charge> {
        let money = json!({ "account": order.account, "cents": order.cents });
        HttpCall::post("bank", "/charges").json(&money)
    }

    fn refund(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("bank", "/charges").segment(ctx.step_key())
    }

    #[step(3, host = "worker", retry = PATIENT, undo = call_back)]
    fn ship(goods: &Reservation, _paid: &Charge) -> HttpCall<Shipment> {
        HttpCall::post("carrier", "/shipments").json(&json!({ "from": goods.shelf }))
    }

    fn call_back(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("carrier", "/shipments").segment(ctx.step_key())
    }

    fn respond(paid: &Charge, shipped: &Shipment) -> Confirmation {
        Confirmation {
            receipt: paid.receipt.clone(),
            tracking: shipped.tracking.clone(),
        }
    }
}

/// The services that an order calls.
pub const SERVICES: [&str; 3] = ["inventory", "bank", "carrier"];

pub fn tasks() -> Registry {
    Registry::new().with_calls::<PlaceOrder>(&SERVICES)
}
