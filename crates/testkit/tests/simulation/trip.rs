//! A trip: seats that are tasks of their own, two steps side by side, a limit, and one trip of a customer at a time.

use counterstep_macros::distributed_task;
use counterstep_steps::{
    ForEach, HttpCall, Limit, RetryPolicy, StepContext, StepError, StepResult, UndoResult,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    customer: String,
    seats: Vec<Seat>,
    /// The step that fails for good; 0: none.
    fails_at: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Seat {
    pub(crate) no: u64,
    pub(crate) is_broken: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Booked {
    receipt: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Packed(u64);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fed(u64);

const PATIENT: RetryPolicy = RetryPolicy::exponential("200ms").max_retries(6).cap("5s");
const TWO: Limit = Limit::named("seats").at_once(2);

pub(crate) struct BookSeat;

#[distributed_task(name = "BookSeat", queue = "seats", max_recoveries = 8)]
impl BookSeat {
    type Request = Seat;
    type Response = String;

    #[step(1, host = "worker", retry = PATIENT, limit = TWO, undo = give_back)]
    fn book(seat: &Seat) -> HttpCall<Booked> {
        HttpCall::post("bank", "/seats").json(&json!({ "no": seat.no }))
    }

    fn give_back(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("bank", "/seats").segment(ctx.step_key())
    }

    #[step(2, host = "worker", limit = TWO, no_undo = "looks only")]
    async fn inspect(seat: &Seat, _booked: &Booked) -> StepResult<bool> {
        // Longer than a limit is looked at late. In parts: of what a pause brings to its end the rest is still to come.
        for _ in 0..8 {
            tokio::time::sleep(std::time::Duration::from_millis(750)).await;
        }
        match seat.is_broken {
            true => Err(StepError::permanent("the seat is broken")),
            false => Ok(true),
        }
    }

    fn respond(booked: &Booked) -> String {
        booked.receipt.clone()
    }
}

pub(crate) struct Trip;

#[distributed_task(
    name = "Trip",
    queue = "trips",
    key = "req.customer",
    at_once = 1,
    max_recoveries = 1,
    cancellable
)]
impl Trip {
    type Request = Plan;
    type Response = Vec<String>;

    #[step(1, host = "worker", group = "before", retry = PATIENT, undo = unpack)]
    async fn pack(plan: &Plan) -> StepResult<Packed> {
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        match plan.fails_at {
            1 => Err(StepError::permanent("nothing to pack")),
            _ => Ok(Packed(1)),
        }
    }

    async fn unpack(_out: Option<Packed>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", group = "before", retry = PATIENT, undo = fetch)]
    async fn feed(plan: &Plan) -> StepResult<Fed> {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        match plan.fails_at {
            2 => Err(StepError::permanent("the cat is gone")),
            _ => Ok(Fed(1)),
        }
    }

    async fn fetch(_out: Option<Fed>) -> UndoResult {
        Ok(())
    }

    #[step(3, host = "worker", retry = PATIENT, undo = refund)]
    fn pay(plan: &Plan, _packed: &Packed, _fed: &Fed) -> HttpCall<Booked> {
        HttpCall::post("bank", "/payments").json(&json!({
            "seats": plan.seats.len(),
            "refused": plan.fails_at == 3,
        }))
    }

    fn refund(ctx: &StepContext) -> HttpCall<()> {
        HttpCall::delete("bank", "/payments").segment(ctx.step_key())
    }

    #[step(4, host = "worker")]
    fn seats(plan: &Plan, _paid: &Booked) -> ForEach<BookSeat> {
        ForEach::of(&plan.seats)
    }

    #[step(5, host = "worker", no_undo = "nothing is kept")]
    async fn depart(plan: &Plan, _seats: &Vec<String>) -> StepResult<bool> {
        match plan.fails_at {
            5 => Err(StepError::permanent("the road is closed")),
            _ => Ok(true),
        }
    }

    fn respond(seats: &Vec<String>) -> Vec<String> {
        seats.clone()
    }
}
