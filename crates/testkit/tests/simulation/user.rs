//! What a user writes: a type, what a client sends, the services that its steps call, and what has to hold.

use counterstep_contracts::TaskStatus;
use counterstep_macros::distributed_task;
use counterstep_steps::{HttpCall, RetryPolicy, StepContext, StepError, StepResult, UndoResult};
use counterstep_testkit::Form;
use counterstep_testkit::simulation::simulate;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    cents: u64,
    is_sold_out: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Charge {
    receipt: String,
}

const PATIENT: RetryPolicy = RetryPolicy::exponential("200ms").max_retries(4).cap("2s");
const ONCE: RetryPolicy = RetryPolicy::constant("200ms").max_retries(0);

async fn refund(ctx: &StepContext) -> UndoResult {
    let call: HttpCall<()> = HttpCall::delete("bank", "/charges").segment(ctx.step_key());
    ctx.call(call).await
}

async fn pack(order: &Order) -> StepResult<bool> {
    match order.is_sold_out {
        true => Err(StepError::permanent("sold out")),
        false => Ok(true),
    }
}

struct PlaceOrder;

#[distributed_task(name = "PlaceOrder", queue = "orders", max_recoveries = 8)]
impl PlaceOrder {
    type Request = Order;
    type Response = String;

    #[step(1, host = "worker", retry = PATIENT, undo = give_back)]
    async fn charge(ctx: &StepContext, order: &Order) -> StepResult<Charge> {
        let call = HttpCall::post("bank", "/charges");
        ctx.call(call.json(&json!({ "cents": order.cents }))).await
    }

    async fn give_back(ctx: &StepContext, _charge: Option<Charge>) -> UndoResult {
        refund(ctx).await
    }

    #[step(2, host = "worker", no_undo = "what is packed is unpacked by people")]
    async fn pack_up(order: &Order, _charge: &Charge) -> StepResult<bool> {
        pack(order).await
    }

    fn respond(charge: &Charge) -> String {
        charge.receipt.clone()
    }
}

/// The same with a mistake: where the answer of the bank was lost, it has nothing to give back.
struct HastyOrder;

#[distributed_task(name = "HastyOrder", queue = "orders", max_recoveries = 8)]
impl HastyOrder {
    type Request = Order;
    type Response = String;

    #[step(1, host = "worker", retry = ONCE, undo = give_back)]
    async fn charge(ctx: &StepContext, order: &Order) -> StepResult<Charge> {
        let call = HttpCall::post("bank", "/charges");
        ctx.call(call.json(&json!({ "cents": order.cents }))).await
    }

    async fn give_back(ctx: &StepContext, charge: Option<Charge>) -> UndoResult {
        match charge {
            Some(_) => refund(ctx).await,
            None => Ok(()),
        }
    }

    #[step(2, host = "worker", no_undo = "what is packed is unpacked by people")]
    async fn pack_up(order: &Order, _charge: &Charge) -> StepResult<bool> {
        pack(order).await
    }

    fn respond(charge: &Charge) -> String {
        charge.receipt.clone()
    }
}

fn order() -> Form {
    Form::new()
        .field("cents", 4_200)
        .field("is_sold_out", false)
}

#[test]
fn an_order_survives_everything() {
    simulate::<PlaceOrder>(order())
        .ledger("bank")
        .seeds(20)
        .check(|world| {
            let completed = world.records.iter();
            let completed = completed.filter(|it| it.task.status == TaskStatus::Completed);
            for record in completed {
                let charges = world.ledger("bank").standing(record.task.id);
                if charges != 1 {
                    return Err(format!("{} was charged {charges} times", record.task.id));
                }
            }
            Ok(())
        });
}

#[test]
fn a_wrong_undo_is_found_and_told_with_one_task_and_two_faults_at_most() {
    let simulation = simulate::<HastyOrder>(order()).ledger("bank").seeds(200);
    let told = catch_unwind(AssertUnwindSafe(|| simulation.check(|_| Ok(()))));
    let told = told.expect_err("it is found");
    let story = told.downcast_ref::<String>().expect("a story");
    let lines = |begin: &'static str| story.lines().filter(move |line| line.starts_with(begin));
    let broken: Vec<_> = lines("broken: ").collect();
    assert!(broken[0].starts_with("broken: 16: "), "{story}");
    let enough = story.lines().find_map(|line| line.split("these ").nth(1));
    let faults = enough.and_then(|rest| rest.split_whitespace().next()?.parse::<u32>().ok());
    assert!(faults.is_some_and(|faults| faults <= 2), "{story}");
    let accepted = story.lines().filter(|line| line.contains("has its answer"));
    assert_eq!(accepted.count(), 1, "{story}");
    assert!(story.contains("ServiceDone"), "{story}");
}
