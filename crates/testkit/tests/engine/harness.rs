//! What the harness gives a test: several types, tables of one's own, services, and panics that say
//! what was planted.

use counterstep_contracts::TaskStatus;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_macros::distributed_task;
use counterstep_steps::ports::{ServiceAnswer, ServiceRequest};
use counterstep_steps::{
    HttpCall, Registry, RetryPolicy, Sql, StepContext, StepResult, UndoResult,
};
use counterstep_testkit::sweep::{self, Surroundings};
use counterstep_testkit::{Form, Harness, TestTask};
use futures::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

#[derive(Debug, Serialize, Deserialize)]
struct Sale {
    pieces: i64,
}

const TABLES: &str = "CREATE TABLE stock (pieces BIGINT NOT NULL CHECK (pieces >= 0));
    INSERT INTO stock VALUES (10);
    CREATE TABLE sales (effect TEXT NOT NULL, price REAL, note BLOB);";

const ONCE_MORE: RetryPolicy = RetryPolicy::constant("20ms").max_retries(1);

struct Sell;

#[distributed_task(name = "Sell")]
impl Sell {
    type Request = Sale;
    type Response = i64;

    #[step(1, host = "worker", undo = take_back, retry = ONCE_MORE)]
    async fn sell(ctx: &StepContext, sale: &Sale) -> StepResult<i64> {
        ctx.in_transaction(
            Sql::new("UPDATE stock SET pieces = pieces - $1")
                .bind(sale.pieces)
                .rows(1),
        );
        ctx.in_transaction(
            Sql::new("INSERT INTO sales VALUES ($1, $2, $3)")
                .bind(ctx.step_key())
                .bind(2.5)
                .bind(b"ok".to_vec()),
        );
        Ok(sale.pieces)
    }

    async fn take_back(ctx: &StepContext, out: Option<i64>) -> UndoResult {
        if let Some(pieces) = out {
            ctx.in_transaction(Sql::new("UPDATE stock SET pieces = pieces + $1").bind(pieces));
            ctx.in_transaction(
                Sql::new("DELETE FROM sales WHERE effect = $1").bind(ctx.step_key()),
            );
        }
        Ok(())
    }

    #[step(2, host = "worker", retry = ONCE_MORE, no_undo = "a message")]
    async fn tell(_sell: &i64) -> StepResult<u32> {
        Ok(1)
    }

    fn respond(sell: &i64) -> i64 {
        *sell
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Question {
    article: String,
}

/// Asks two services.
struct Ask;

#[distributed_task(name = "Ask")]
impl Ask {
    type Request = Question;
    type Response = (u32, u64);

    #[step(1, host = "worker", no_undo = "reads only")]
    fn price(question: &Question) -> HttpCall<u32> {
        HttpCall::get("prices", "/of").segment(&question.article)
    }

    #[step(2, host = "worker", no_undo = "reads only")]
    fn stock(question: &Question) -> HttpCall<u64> {
        HttpCall::get("stock", "/of").segment(&question.article)
    }

    fn respond(price: &u32, stock: &u64) -> (u32, u64) {
        (*price, *stock)
    }
}

fn shop() -> Registry {
    Registry::new().with::<Sell>().with::<Ask>()
}

fn with_tables() -> Harness {
    Harness::embedded(shop()).tables(TABLES)
}

fn sale() -> Form {
    Form::to::<Sell>().field("pieces", 3)
}

fn question() -> Form {
    Form::to::<Ask>().field("article", "lamp")
}

fn answer(
    value: u32,
) -> impl Fn(&ServiceRequest) -> Result<ServiceAnswer, counterstep_steps::ports::ServiceError>
+ Send
+ Sync {
    move |_| Ok(ServiceAnswer::json(200, &json!(value)))
}

#[tokio::test]
async fn a_form_names_its_type_among_several() {
    let task = with_tables().submit(sale()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("sell ok, tell ok, completed").await;

    let mut site = with_tables()
        .service("prices", answer(7))
        .service("stock", answer(9))
        .start()
        .await;
    site.serve(2);
    let tasks = [site.submit(sale()).await, site.submit(question()).await];
    let records = site.all_are(TaskStatus::Completed, &tasks).await;
    let responses: Vec<_> = records.into_iter().map(|it| it.task.response).collect();
    assert_eq!(responses, [Some(json!(3)), Some(json!([7, 9]))]);
    site.assert_invariants(&tasks).await;
    assert_eq!(
        site.rows("SELECT pieces FROM stock"),
        [json!({ "pieces": 7 })]
    );
    site.stop().await;
}

#[tokio::test]
#[should_panic(expected = "the registry has no type `Ask`")]
async fn a_form_for_a_type_that_is_not_there_is_refused() {
    let harness = Harness::embedded(Registry::new().with::<Sell>());
    harness.submit(question()).await;
}

#[tokio::test]
async fn tables_are_there_before_the_task_and_are_read_back() {
    let task = with_tables().submit(sale()).await;
    assert_eq!(
        task.rows("SELECT * FROM sales"),
        Vec::<serde_json::Value>::new()
    );
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let sold = json!({ "effect": format!("{}:sell", task.id), "price": 2.5, "note": [111, 107] });
    assert_eq!(task.rows("SELECT * FROM sales"), [sold]);

    let refused = with_tables().submit(Form::to::<Sell>().field("pieces", 11));
    let refused = refused.await;
    assert_eq!(refused.run_to_rest().await, TaskStatus::Failed);
    let left = refused.rows("SELECT pieces, NULL AS missing FROM stock");
    assert_eq!(left, [json!({ "pieces": 10, "missing": null })]);
}

#[tokio::test]
async fn a_sweep_runs_in_the_harness_that_the_test_sets_up() {
    sweep::every_fault_in(with_tables, sale).await;
}

#[tokio::test]
async fn services_that_are_given_later_leave_the_closures_in_place() {
    #[derive(Debug)]
    struct Nines;

    #[async_trait::async_trait]
    impl counterstep_steps::ports::HttpServices for Nines {
        async fn call(
            &self,
            _: ServiceRequest,
        ) -> Result<ServiceAnswer, counterstep_steps::ports::ServiceError> {
            Ok(ServiceAnswer::json(200, &json!(9)))
        }

        fn knows(&self, _: &str) -> bool {
            true
        }
    }

    let task = Harness::embedded(shop())
        .service("prices", answer(1))
        .services(Arc::new(Nines))
        .service("prices", answer(7))
        .submit(question())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(
        task.record().await.task.response,
        Some(json!([7, 9])),
        "the last closure of a name, and what was given for the rest"
    );
}

/// Surroundings that are never as they must be after a task that failed.
struct Picky;

impl Surroundings for Picky {
    fn around(&self, harness: Harness) -> Harness {
        harness.tables(TABLES)
    }

    fn assert_after(&self, _: &TestTask, status: TaskStatus) {
        assert_eq!(status, TaskStatus::Completed, "not as it must be");
    }
}

#[tokio::test]
#[should_panic(
    expected = " at sell, in every attempt: assertion `left == right` failed: not as it must be"
)]
async fn a_panic_of_a_sweep_begins_with_fault_step_and_attempt() {
    sweep::every_fault_amid(Arc::new(Picky), || Registry::new().with::<Sell>(), sale).await;
}

#[tokio::test]
#[should_panic(
    expected = "no step `slel` to plant a fault at; expected one of `price`, `stock` of Ask; `sell`, `tell` of Sell"
)]
async fn a_fault_at_a_step_that_no_type_has_is_refused_with_the_steps_there_are() {
    let _ = with_tables().fail_at("slel");
}

#[tokio::test]
#[should_panic(expected = "no step `telll` to plant a fault at")]
async fn a_host_that_is_to_be_lost_at_a_step_that_no_type_has_is_refused() {
    let _ = with_tables().crash_in_undo_of("telll");
}

#[tokio::test]
#[should_panic(expected = "the planted fault did not strike: FailAfter in the undo of `tell`")]
async fn a_planted_fault_that_does_not_strike_fails_the_test() {
    let fault = Fault::at("tell", FaultKind::FailAfter).in_undo();
    let task = with_tables().fault(fault).submit(sale()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
}

#[tokio::test]
#[should_panic(expected = "the planted fault did not strike: FailAfter at `price`")]
async fn a_planted_fault_that_does_not_strike_fails_the_test_of_many_tasks() {
    let mut site = with_tables().fail_at("price").start().await;
    site.serve(1);
    let tasks = [site.submit(sale()).await];
    site.all_are(TaskStatus::Completed, &tasks).await;
    site.stop().await;
}

#[tokio::test]
#[should_panic(
    expected = "the task rests before the fault struck: Hang in the undo of `sell`, in attempt 1"
)]
async fn a_host_that_is_not_lost_fails_the_test_with_the_name_of_the_step() {
    let task = with_tables().crash_in_undo_of("sell").submit(sale()).await;
    task.run_to_rest().await;
}

#[tokio::test]
async fn a_trail_that_is_another_one_shows_what_was_expected_what_happened_and_where() {
    let task = with_tables().submit(sale()).await;
    task.run_to_rest().await;
    let compared = AssertUnwindSafe(task.assert_trail("sell  ok, completed"));
    let panic = compared.catch_unwind().await.expect_err("another trail");
    let message = counterstep_steps::error::panic_message(panic.as_ref());
    let (here, trails) = message.split_once(": ").expect("a place");
    assert!(here.contains("harness.rs:"), "{message}");
    assert_eq!(
        trails,
        "another trail\nexpected: sell ok, completed\nhappened: sell ok, tell ok, completed"
    );
}

#[tokio::test]
#[should_panic(
    expected = "the request to Ask, the first type of the registry since the form names none (`Form::to`), is refused: missing field `article` at `.`"
)]
async fn a_request_that_is_refused_names_the_type() {
    with_tables().submit(Form::new().field("pieces", 3)).await;
}

#[tokio::test]
#[should_panic(expected = "the request to Sell is refused: missing field `pieces`")]
async fn a_request_to_a_type_that_the_form_names_is_refused_by_its_name() {
    with_tables().submit(Form::to::<Sell>()).await;
}
