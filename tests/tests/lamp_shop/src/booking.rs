//! Holds a seat in the shop's own table, waits for a person's approval, and has it paid by a task of
//! its own. Written into a crate of `counterstep new` by the test of such crates.

use crate::checkout::{Checkout, Order, PATIENT};
use crate::seats::Seats;
use counterstep::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub struct Booking {
    pub seat: String,
}

#[derive(Serialize, Deserialize)]
pub struct Held {
    pub seat: String,
}

#[derive(Serialize, Deserialize)]
pub struct Approval {
    pub by: String,
}

pub struct BookSeat;

#[distributed_task(cancellable)]
impl BookSeat {
    type Request = Booking;
    type Response = String;

    #[step(1, host = "worker", undo = free_seat, retry = PATIENT)]
    async fn hold_seat(
        ctx: &StepContext,
        booking: &Booking,
        seats: &State<Seats>,
    ) -> StepResult<Held> {
        let held = seats.hold(&ctx.step_key(), &booking.seat).await;
        held.transient("the seat")?;
        Ok(Held {
            seat: booking.seat.clone(),
        })
    }

    async fn free_seat(ctx: &StepContext, seats: &State<Seats>) -> UndoResult {
        let freed = seats.free(&ctx.step_key()).await;
        Ok(freed.transient("the seat")?)
    }

    #[step(2, host = "worker")]
    fn approval(_held: &Held) -> AwaitSignal<Approval> {
        AwaitSignal::within("1h")
    }

    #[step(3, host = "worker")]
    fn payment(booking: &Booking, _approval: &Approval) -> AwaitTask<Checkout> {
        AwaitTask::of(&Order {
            item: booking.seat.clone(),
            card: "4711".to_owned(),
        })
    }

    fn respond(approval: &Approval, payment: &String) -> String {
        format!("approved by {}: {payment}", approval.by)
    }
}
