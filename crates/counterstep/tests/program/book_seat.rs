//! The task type that README.md declares, and its tests as they stand there: `cargo xtask tidy`
//! compares the two.

#![expect(dead_code, unreachable_pub, reason = "README.md shows a whole program")]

use counterstep::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Order {
    seat: String,
    card: String,
}
#[derive(Serialize, Deserialize)]
pub struct Seat(String);
#[derive(Serialize, Deserialize)]
pub struct Payment(String);

pub struct BookSeat;

#[distributed_task(cancellable, timeout = "5m")]
impl BookSeat {
    type Request = Order;
    type Response = String;

    #[step(1, host = "worker", undo = release, retry = PATIENT)]
    async fn reserve(ctx: &StepContext, order: &Order) -> StepResult<Seat> {
        // The step key names the hold, on every attempt and in the undo. As `Idempotency-Key` send `effect_key()`.
        Ok(Seat(format!(
            "{} held under {}",
            order.seat,
            ctx.step_key()
        )))
    }

    // `None`: the step started, but how far it came is unknown. If there is nothing to release, it succeeds.
    async fn release(_seat: Option<Seat>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", undo = refund)]
    async fn charge(order: &Order, seat: &Seat) -> StepResult<Payment> {
        if order.card.is_empty() {
            return Err(StepError::permanent("the card was declined"));
        }
        Ok(Payment(format!("paid for {}", seat.0)))
    }

    async fn refund(_payment: Option<Payment>) -> UndoResult {
        Ok(())
    }

    fn respond(payment: &Payment) -> String {
        payment.0.clone()
    }
}

const PATIENT: RetryPolicy = RetryPolicy::exponential("200ms").max_retries(5).cap("10s");

fn tasks() -> Registry {
    Registry::new().with::<BookSeat>()
}
fn main() -> std::process::ExitCode {
    counterstep::cli::main(tasks())
}

#[cfg(test)]
mod tests {
    use super::tasks;
    use counterstep_testkit::{Form, Harness, sweep};

    fn order() -> Form {
        Form::new().field("seat", "12A").field("card", "4711")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_failed_payment_releases_the_seat() {
        let task = Harness::embedded(tasks())
            .fail_at("charge")
            .submit(order())
            .await;
        task.run_to_rest().await;
        task.assert_trail("reserve ok, charge failed, charge undone, reserve undone, failed")
            .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_fault_leaves_a_clean_slate() {
        sweep::every_fault(tasks, order).await
    }
}
