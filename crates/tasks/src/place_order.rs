//! Goods are reserved, the customer pays, a person approves a large order, and the goods are
//! shipped. Each step asks a service outside, and each has its way back.

use counterstep_macros::distributed_task;
use counterstep_steps::schemars::{self, JsonSchema};
use counterstep_steps::{
    AwaitSignal, BreakerPolicy, HttpCall, RetryPolicy, StepContext, StepError, StepResult,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

/// What a client sends.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct PlaceOrderRequest {
    /// The account that pays.
    pub account: String,
    /// What is ordered.
    pub item: String,
    /// Number of pieces.
    pub quantity: u32,
    /// What all of it costs.
    #[schemars(extend("x-amount" = {"minor": 2, "currency": "EUR"}))]
    pub amount_cents: u64,
    /// For how long the goods are held for an approval; three days otherwise.
    pub hold_seconds: Option<u32>,
}

/// What the shop says of goods that it holds.
#[derive(Serialize, Deserialize)]
pub struct Reservation {
    /// Its name for them.
    pub reservation_id: String,
}

/// What the bank says of money that it moved.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Charge {
    /// Its name for it.
    pub charge_id: String,
    /// How much it was.
    #[schemars(extend("x-amount" = {"minor": 2, "currency": "EUR"}))]
    pub amount_cents: u64,
}

/// The decision on a large order.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// Yes or no.
    pub approved: bool,
    /// Who says so.
    pub by: String,
}

/// Who has taken responsibility for an order; `None` for a small one.
#[derive(Serialize, Deserialize)]
pub struct Cleared {
    /// The name.
    pub approved_by: Option<String>,
}

/// What the carrier says.
#[derive(Serialize, Deserialize)]
pub struct Shipment {
    /// To follow it by.
    pub tracking: String,
}

/// What a client gets.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct PlaceOrderResponse {
    /// At the shop.
    pub reservation_id: String,
    /// At the bank.
    pub charge_id: String,
    /// At the carrier.
    pub tracking: String,
    /// Who approved it, where an approval was required.
    pub approved_by: Option<String>,
}

/// From this amount on an order needs an approval.
pub const APPROVAL_FROM_CENTS: u64 = 100_000;

/// No order holds goods and money for longer, whatever a client asks for.
pub const LONGEST_HOLD: Duration = Duration::from_secs(30 * 24 * 3600);

/// A request that may have arrived is sent again with the same key, so there is no harm in trying.
pub const SERVICE_RETRY: RetryPolicy = RetryPolicy::exponential("200ms")
    .max_retries(5)
    .cap("10s")
    .attempt_timeout("20s");

/// A bank that is down is left alone by all orders, which wait.
pub const BANK: BreakerPolicy = BreakerPolicy::named("bank")
    .after_failures(10)
    .within("1m")
    .open_for("15s");

/// Sells goods.
pub struct PlaceOrder;

#[distributed_task(
    name = "PlaceOrder",
    version = 1,
    queue = "orders",
    max_recoveries = 10,
    cancellable
)]
impl PlaceOrder {
    type Request = PlaceOrderRequest;
    type Response = PlaceOrderResponse;

    #[step(1, host = "worker", retry = SERVICE_RETRY, undo = release)]
    fn reserve(order: &PlaceOrderRequest) -> HttpCall<Reservation> {
        let goods = json!({ "item": order.item, "quantity": order.quantity });
        HttpCall::post("inventory", "/reservations").json(&goods)
    }

    /// By the key of the request that it takes back: the answer to that may be unknown.
    fn release(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("inventory", "/reservations")
            .segment(ctx.step_key())
            .accepting(404)
    }

    #[step(2, host = "worker", retry = SERVICE_RETRY, breaker = BANK, undo = refund)]
    fn charge(order: &PlaceOrderRequest) -> HttpCall<Charge> {
        let money = json!({ "account": order.account, "amount_cents": order.amount_cents });
        HttpCall::post("bank", "/charges").json(&money)
    }

    fn refund(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::post("bank", "/refunds")
            .json(&json!({ "charge": ctx.step_key() }))
            .accepting(404)
    }

    #[step(3, host = "worker", when = is_large)]
    fn approval(order: &PlaceOrderRequest) -> AwaitSignal<Approval> {
        let hold = Duration::from_secs(order.hold_seconds.unwrap_or(3 * 24 * 3600).into());
        AwaitSignal::within_duration(hold.min(LONGEST_HOLD))
    }

    fn is_large(order: &PlaceOrderRequest) -> bool {
        order.amount_cents >= APPROVAL_FROM_CENTS
    }

    #[step(4, host = "worker")]
    #[pure]
    async fn clear(approval: Option<&Approval>) -> StepResult<Cleared> {
        match approval {
            Some(Approval {
                approved: false,
                by,
            }) => Err(StepError::permanent(format_args!(
                "{by} declined the order"
            ))),
            Some(Approval { by, .. }) => Ok(Cleared {
                approved_by: Some(by.clone()),
            }),
            None => Ok(Cleared { approved_by: None }),
        }
    }

    #[step(5, host = "worker", retry = SERVICE_RETRY, undo = recall)]
    fn ship(reserve: &Reservation, _cleared: &Cleared) -> HttpCall<Shipment> {
        HttpCall::post("shipping", "/shipments")
            .json(&json!({ "reservation_id": reserve.reservation_id }))
    }

    fn recall(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("shipping", "/shipments")
            .segment(ctx.step_key())
            .accepting(404)
    }

    fn respond(
        reserve: &Reservation,
        charge: &Charge,
        ship: &Shipment,
        cleared: &Cleared,
    ) -> PlaceOrderResponse {
        PlaceOrderResponse {
            reservation_id: reserve.reservation_id.clone(),
            charge_id: charge.charge_id.clone(),
            tracking: ship.tracking.clone(),
            approved_by: cleared.approved_by.clone(),
        }
    }
}
