//! Reserves an item and charges a card; when the charge fails, the item is released.

use crate::Stock;
use counterstep::prelude::*;
use serde::{Deserialize, Serialize};

/// What a client sends. Its schema is in the OpenAPI document that the API serves.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Order {
    pub item: String,
    pub card: String,
}

/// What step 1 gives to step 2.
#[derive(Serialize, Deserialize)]
pub struct Reservation {
    pub item: String,
}

/// What step 2 gives to the response.
#[derive(Serialize, Deserialize)]
pub struct Payment {
    pub receipt: String,
}

/// A service that is busy is asked again.
pub const PATIENT: RetryPolicy = RetryPolicy::exponential("200ms").max_retries(5).cap("10s");

pub struct Checkout;

#[distributed_task(cancellable, timeout = "10m")]
impl Checkout {
    type Request = Order;
    type Response = String;

    #[step(1, host = "worker", undo = release_item, retry = PATIENT)]
    async fn reserve_item(
        ctx: &StepContext,
        order: &Order,
        stock: &State<Stock>,
    ) -> StepResult<Reservation> {
        // The key is the same on every attempt, and in the undo: what is done twice under it is done once.
        stock.reserve(&ctx.step_key(), &order.item);
        Ok(Reservation {
            item: order.item.clone(),
        })
    }

    // An undo also runs when it is unknown how far its step came: nothing to release is success.
    async fn release_item(ctx: &StepContext, stock: &State<Stock>) -> UndoResult {
        stock.release(&ctx.step_key());
        Ok(())
    }

    #[step(2, host = "worker", undo = refund_card, retry = PATIENT)]
    async fn charge_card(
        ctx: &StepContext,
        order: &Order,
        reserved: &Reservation,
    ) -> StepResult<Payment> {
        if order.card.is_empty() {
            return Err(StepError::permanent("the card was declined"));
        }
        Ok(Payment {
            receipt: format!("{} paid under {}", reserved.item, ctx.step_key()),
        })
    }

    async fn refund_card(_payment: Option<Payment>) -> UndoResult {
        Ok(())
    }

    fn respond(payment: &Payment) -> String {
        payment.receipt.clone()
    }
}
