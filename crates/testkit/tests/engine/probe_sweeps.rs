//! Sweeps over types with probes: a bank that knows no idempotency keys, so that only the probe keeps a
//! payment in doubt from being sent twice.

use crate::errand::only;
use counterstep_contracts::TaskStatus;
use counterstep_macros::distributed_task;
use counterstep_steps::ports::{Method, ServiceAnswer, ServiceRequest};
use counterstep_steps::{
    AwaitTask, HttpCall, Probe, Registry, RetryPolicy, StepContext, StepResult, UndoResult,
};
use counterstep_testkit::sweep::{Surroundings, every_fault_amid, every_fault_in};
use counterstep_testkit::{Form, Harness, TestTask};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const SOON: RetryPolicy = RetryPolicy::constant("20ms").max_retries(2);

/// A second attempt would be a second payment.
const ONCE: RetryPolicy = RetryPolicy::constant("20ms").max_retries(0);

/// How often was paid under a key.
type Book = Mutex<BTreeMap<String, u32>>;

fn answer(book: &Book, request: &ServiceRequest) -> ServiceAnswer {
    let mut book = book.lock();
    let key = |name| request.headers.iter().find(|(it, _)| *it == name);
    match (request.method, request.path.as_str()) {
        (Method::Post, "/charges") => {
            let (_, key) = key("idempotency-key").expect("a key");
            *book.entry(key.clone()).or_default() += 1;
            ServiceAnswer::json(201, &json!(key))
        }
        (Method::Post, _) => {
            let body = request.body.as_deref().unwrap_or_default();
            let key: String = serde_json::from_slice(body).expect("a key");
            book.remove(&key);
            ServiceAnswer::json(200, &Value::Null)
        }
        (_, path) => {
            let key = path.trim_start_matches("/charges/").replace("%3A", ":");
            match book.contains_key(&key) {
                true => ServiceAnswer::json(200, &json!(key)),
                false => ServiceAnswer::json(404, &Value::Null),
            }
        }
    }
}

fn with_bank(harness: Harness, book: Arc<Book>) -> Harness {
    harness.service("bank", move |request| Ok(answer(&book, request)))
}

/// A bank, and how many payments stand behind a task that has completed.
struct Bank(Arc<Book>, u32);

impl Bank {
    fn of(payments: u32) -> Arc<Self> {
        Arc::new(Self(Arc::default(), payments))
    }
}

impl Surroundings for Bank {
    fn around(&self, harness: Harness) -> Harness {
        with_bank(harness, self.0.clone())
    }

    fn assert_after(&self, task: &TestTask, status: TaskStatus) {
        let book = self.0.lock();
        let of_task = format!("{}:", task.id);
        let own = book.iter().filter(|(key, _)| key.starts_with(&of_task));
        let paid: u32 = own.map(|(_, times)| times).sum();
        let wanted = match status {
            TaskStatus::Completed => self.1,
            _ => 0,
        };
        assert_eq!(paid, wanted, "payments of a task that is {status}");
    }
}

async fn pay(ctx: &StepContext) -> StepResult<String> {
    ctx.call(HttpCall::post("bank", "/charges")).await
}

async fn pay_back(ctx: &StepContext) -> UndoResult {
    let call = HttpCall::<()>::post("bank", "/refunds");
    ctx.call(call.json(&ctx.step_key())).await
}

async fn find(ctx: &StepContext) -> StepResult<Probe<String>> {
    let call = HttpCall::get("bank", "/charges").segment(ctx.effect_key());
    let found: Option<String> = ctx.call(call.accepting(404)).await?;
    Ok(found.map_or(Probe::NothingHappened, Probe::Done))
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Order {
    /// How the probe is wrong: `careless`, `astray`.
    probe: String,
}

struct Pay;

#[distributed_task(name = "Pay", cancellable)]
impl Pay {
    type Request = Order;
    type Response = String;

    #[step(1, host = "worker", retry = ONCE, probe = look, probe_retry = SOON, undo = refund)]
    async fn charge(ctx: &StepContext) -> StepResult<String> {
        pay(ctx).await
    }

    async fn look(ctx: &StepContext, order: &Order) -> StepResult<Probe<String>> {
        match (order.probe.as_str(), find(ctx).await) {
            ("careless", Err(_)) | ("astray", _) => Ok(Probe::NothingHappened),
            (_, found) => found,
        }
    }

    async fn refund(ctx: &StepContext) -> UndoResult {
        pay_back(ctx).await
    }

    #[step(2, host = "worker", no_undo = "a message")]
    async fn tell(_charge: &String) -> StepResult<u8> {
        Ok(1)
    }

    fn respond(charge: &String) -> String {
        charge.clone()
    }
}

/// Two payments side by side.
struct PayBoth;

#[distributed_task(name = "PayBoth", cancellable)]
impl PayBoth {
    type Request = Order;
    type Response = String;

    #[step(1, host = "worker", group = "pay", retry = ONCE, probe = find_left, probe_retry = SOON, undo = left_back)]
    async fn left(ctx: &StepContext) -> StepResult<String> {
        pay(ctx).await
    }

    async fn find_left(ctx: &StepContext) -> StepResult<Probe<String>> {
        find(ctx).await
    }

    async fn left_back(ctx: &StepContext) -> UndoResult {
        pay_back(ctx).await
    }

    #[step(2, host = "worker", group = "pay", retry = ONCE, probe = find_right, probe_retry = SOON, undo = right_back)]
    async fn right(ctx: &StepContext) -> StepResult<String> {
        pay(ctx).await
    }

    async fn find_right(ctx: &StepContext) -> StepResult<Probe<String>> {
        find(ctx).await
    }

    async fn right_back(ctx: &StepContext) -> UndoResult {
        pay_back(ctx).await
    }

    fn respond(left: &String, right: &String) -> String {
        format!("{left} {right}")
    }
}

/// A payment that is never sent again unasked, and is looked for once.
struct PayOrNot;

#[distributed_task(name = "PayOrNot", on_lost = "fail")]
impl PayOrNot {
    type Request = Order;
    type Response = String;

    #[step(1, host = "worker", retry = ONCE, probe = look, undo = refund)]
    async fn charge(ctx: &StepContext) -> StepResult<String> {
        pay(ctx).await
    }

    async fn look(ctx: &StepContext) -> StepResult<Probe<String>> {
        find(ctx).await
    }

    async fn refund(ctx: &StepContext) -> UndoResult {
        pay_back(ctx).await
    }

    fn respond(charge: &String) -> String {
        charge.clone()
    }
}

/// A message that may be sent twice.
struct Remind;

#[distributed_task(name = "Remind")]
impl Remind {
    type Request = Order;
    type Response = String;

    #[step(1, host = "worker", no_undo = "a message", probe = look, on_probe_failure = "run_again")]
    async fn send(ctx: &StepContext) -> StepResult<String> {
        pay(ctx).await
    }

    async fn look(ctx: &StepContext) -> StepResult<Probe<String>> {
        find(ctx).await
    }

    fn respond(send: &String) -> String {
        send.clone()
    }
}

/// A payment in a task below it, and one message.
struct Ship;

#[distributed_task(name = "Ship", cancellable)]
impl Ship {
    type Request = Order;
    type Response = String;

    #[step(1, host = "worker")]
    fn paid(order: &Order) -> AwaitTask<Pay> {
        AwaitTask::of(order)
    }

    #[step(2, host = "worker", no_undo = "nothing is kept")]
    async fn pack(paid: &String) -> StepResult<String> {
        Ok(paid.clone())
    }

    fn respond(pack: &String) -> String {
        pack.clone()
    }
}

fn careless() -> Form {
    Form::new().field("probe", "careless")
}

fn astray() -> Form {
    Form::new().field("probe", "astray")
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_befalls_a_probe_the_payment_is_sent_once_or_paid_back() {
    every_fault_amid(Bank::of(1), only::<Pay>, Form::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_it_is_of_two_payments_side_by_side() {
    every_fault_amid(Bank::of(2), only::<PayBoth>, Form::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_it_is_where_a_lost_host_has_the_task_undone() {
    every_fault_amid(Bank::of(1), only::<PayOrNot>, Form::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_may_run_again_does_so_where_its_probe_gives_up() {
    let harness = || with_bank(Harness::embedded(only::<Remind>()), Arc::default());
    every_fault_in(harness, Form::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_probes_of_tasks_below_are_struck_too() {
    let harness = || {
        let registry = Registry::new().with::<Pay>().with::<Ship>();
        with_bank(Harness::embedded(registry), Arc::default())
    };
    every_fault_in(harness, Form::to::<Ship>).await;
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "NoAnswer in the probe of charge")]
async fn a_probe_that_takes_no_answer_for_no_payment_fails_the_sweep() {
    every_fault_amid(Bank::of(1), only::<Pay>, careless).await;
}

#[tokio::test(flavor = "multi_thread")]
#[should_panic(expected = "payments of a task that is completed")]
async fn a_probe_that_looks_in_the_wrong_place_fails_the_sweep() {
    every_fault_amid(Bank::of(1), only::<Pay>, astray).await;
}
