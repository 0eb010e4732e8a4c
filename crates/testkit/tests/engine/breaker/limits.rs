//! What a breaker never does to a task: keep it beyond its deadline, hold up its undo or a cancel,
//! or stop the rest of its group or a fallback.

use super::{
    Answer, Order, PAYMENTS, Sale, attempts, bank, breaker, open, order, pass, site, submit,
    waits_for_a_breaker,
};
use crate::errand::only;
use crate::limits::{inside, service};
use counterstep_contracts::TaskStatus;
use counterstep_kernel::client;
use counterstep_macros::distributed_task;
use counterstep_steps::breaker::BreakerState;
use counterstep_steps::{BreakerPolicy, Limit, Registry, StepError, StepResult, UndoResult};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_task_waits_for_a_breaker_no_longer_than_its_deadline() {
    let (mut site, _) = site(Harness::embedded(only::<Hurry>())).await;
    open(&site).await;
    site.serve(1);
    let tasks = submit(&site, Form::new(), 1).await;
    site.all("waiting for the breaker", &tasks, waits_for_a_breaker)
        .await;
    site.clock.advance("3s");
    let record = &site.all_are(TaskStatus::Failed, &tasks).await[0];
    assert_eq!(
        record
            .task
            .failure
            .as_ref()
            .map(|failure| failure.class.as_str()),
        Some("deadline")
    );
    assert_eq!(attempts(record), (0, 0));
    let history = site.history(tasks[0]).await;
    assert!(
        history
            .audit
            .iter()
            .any(|row| row.entry.details["for"] == "breaker")
    );
    assert!(
        history
            .audit
            .iter()
            .any(|row| row.entry.event == "undo_succeeded"),
        "what had run is undone"
    );
    site.assert_invariants(&tasks).await;
    site.stop().await;
}

struct Hurry;

#[distributed_task(name = "Hurry", queue = "hurries", timeout = "3s")]
impl Hurry {
    type Request = Order;
    type Response = u32;

    #[step(1, host = "worker", undo = forget)]
    async fn note() -> StepResult<u32> {
        Ok(1)
    }

    async fn forget(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", breaker = PAYMENTS, no_undo = "test")]
    async fn pay() -> StepResult<()> {
        Ok(())
    }

    fn respond(note: &u32) -> u32 {
        *note
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_does_not_wait_for_a_breaker() {
    const BANK: &str = "undo";
    let (mut site, _) = site(Harness::embedded(only::<Sale>())).await;
    site.serve(1);
    let tasks = submit(&site, order(BANK).field("spoiled", true), 1).await;
    site.all("charged", &tasks, |record| record.steps[2].attempt_open)
        .await;
    open(&site).await;
    bank(BANK, |bank| bank.answer = Answer::Down);
    site.all_are(TaskStatus::Failed, &tasks).await;
    assert!(
        matches!(breaker(&site).standing().await, BreakerState::Open(_)),
        "it stays open"
    );
    let history = site.history(tasks[0]).await;
    let undone = history
        .audit
        .iter()
        .filter(|row| row.entry.event == "undo_succeeded")
        .count();
    assert_eq!(undone, 3);
    assert!(!history.audit.iter().any(|row| row.entry.event == "waits"));
    site.assert_invariants(&tasks).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_waits_for_a_breaker_can_be_cancelled() {
    let (mut site, _) = site(Harness::embedded(only::<Sale>())).await;
    open(&site).await;
    site.serve(1);
    let tasks = submit(&site, order("cancel"), 1).await;
    site.all("waiting for the breaker", &tasks, waits_for_a_breaker)
        .await;
    client::cancel(&site.engine, tasks[0], "client")
        .await
        .expect("it is accepted");
    site.all_are(TaskStatus::Cancelled, &tasks).await;
    assert_eq!(bank("cancel", |bank| bank.calls), 0);
    site.assert_invariants(&tasks).await;
    site.stop().await;
}

struct Beside;

#[distributed_task(name = "Beside", queue = "beside")]
impl Beside {
    type Request = Order;
    type Response = u32;

    #[step(1, host = "worker", group = "both", breaker = PAYMENTS, no_undo = "test")]
    async fn pay() -> StepResult<u32> {
        Ok(1)
    }

    #[step(2, host = "worker", group = "both", no_undo = "test")]
    async fn print() -> StepResult<bool> {
        Ok(true)
    }

    fn respond(pay: &u32) -> u32 {
        *pay
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_group_only_the_step_behind_the_breaker_waits() {
    let (mut site, hints) = site(Harness::embedded(only::<Beside>())).await;
    open(&site).await;
    site.serve(1);
    let tasks = submit(&site, Form::new(), 1).await;
    let record = &site
        .all("waiting for the breaker", &tasks, waits_for_a_breaker)
        .await[0];
    assert_eq!(
        (record.steps[0].attempts.0, record.steps[1].status.as_str()),
        (0, "completed")
    );
    pass(&site, &hints);
    site.all_are(TaskStatus::Completed, &tasks).await;
    assert_eq!(breaker(&site).standing().await, BreakerState::Closed);
    site.assert_invariants(&tasks).await;
    site.stop().await;
}

const FRAGILE: BreakerPolicy = BreakerPolicy::named("payments")
    .after_failures(1)
    .within("1h")
    .open_for("1h");

struct ByInvoice;

#[distributed_task(name = "ByInvoice", queue = "by-invoice")]
impl ByInvoice {
    type Request = Order;
    type Response = u32;

    #[step(1, host = "worker", breaker = FRAGILE, no_undo = "test", fallback = invoice)]
    async fn pay() -> StepResult<u32> {
        Err(StepError::transient("the bank does not answer"))
    }

    async fn invoice() -> StepResult<u32> {
        Ok(2)
    }

    fn respond(pay: &u32) -> u32 {
        *pay
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fallback_goes_another_way_and_asks_no_breaker() {
    let (mut site, _) = site(Harness::embedded(only::<ByInvoice>())).await;
    site.serve(1);
    let tasks = submit(&site, Form::new(), 1).await;
    let record = &site.all_are(TaskStatus::Completed, &tasks).await[0];
    assert_eq!(record.task.response, Some(2.into()));
    assert!(
        matches!(breaker(&site).standing().await, BreakerState::Open(_)),
        "what the fallback says does not close it"
    );
    site.assert_invariants(&tasks).await;
    site.stop().await;
}

/// A group whose one step is under way while the breaker of the other is open.
struct Fair;

#[distributed_task(name = "Fair", queue = "fairs", timeout = "10m")]
impl Fair {
    type Request = Order;
    type Response = u32;

    #[step(1, host = "worker", group = "fair", no_undo = "does nothing")]
    async fn stall(_order: &Order) -> StepResult<u8> {
        service("fair").call().await;
        Ok(1)
    }

    #[step(2, host = "worker", group = "fair", breaker = PAYMENTS, no_undo = "does nothing")]
    async fn charge(order: &Order) -> StepResult<u32> {
        bank(&order.bank, |bank| bank.calls += 1);
        Ok(1)
    }

    fn respond(charge: &u32) -> u32 {
        *charge
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_the_claim_holds_back_starts_while_its_sibling_runs() {
    const BANK: &str = "fair";
    let harness = Harness::embedded(only::<Fair>())
        .settings(|settings| settings.step_timeout = Duration::from_secs(600));
    let (mut site, hints) = site(harness).await;
    open(&site).await;
    site.serve(1);
    let tasks = submit(&site, order(BANK), 1).await;
    let stall = service("fair");
    inside(&stall, 1).await;
    assert_eq!(bank(BANK, |bank| bank.calls), 0);
    pass(&site, &hints);
    eventually("a charge beside the stall", || async {
        (bank(BANK, |bank| bank.calls) == 1).then_some(())
    })
    .await;
    assert_eq!(stall.inside(), 1);
    stall.gate.add_permits(1);
    site.all_are(TaskStatus::Completed, &tasks).await;
    site.assert_invariants(&tasks).await;
    site.stop().await;
}

/// One start an hour: what is used up while the breaker is open is missing afterwards.
const HOURLY: Limit = Limit::named("hourly").rate(1, "1h");

struct AtOnce;

#[distributed_task(name = "AtOnce", queue = "at-once", timeout = "50m")]
impl AtOnce {
    type Request = Order;
    type Response = u32;

    #[step(1, host = "worker", heavy, breaker = PAYMENTS, limit = HOURLY, no_undo = "test")]
    async fn pay() -> StepResult<u32> {
        Ok(1)
    }

    fn respond(pay: &u32) -> u32 {
        *pay
    }
}

struct AfterANote;

#[distributed_task(name = "AfterANote", queue = "after-a-note", timeout = "50m")]
impl AfterANote {
    type Request = Order;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "test")]
    async fn note() -> StepResult<bool> {
        Ok(true)
    }

    #[step(2, host = "worker", breaker = PAYMENTS, limit = HOURLY, no_undo = "test")]
    async fn pay(_note: &bool) -> StepResult<u32> {
        Ok(1)
    }

    fn respond(pay: &u32) -> u32 {
        *pay
    }
}

/// Three tasks wait for the breaker. Once it lets one through, that one has the start of the hour.
async fn takes_no_start(registry: Registry) {
    let (mut site, hints) = site(Harness::embedded(registry)).await;
    open(&site).await;
    site.serve(4);
    let tasks = submit(&site, Form::new(), 3).await;
    site.all("waiting for the breaker", &tasks, waits_for_a_breaker)
        .await;
    pass(&site, &hints);
    let completed = eventually("a task that the breaker lets through", || async {
        let mut completed = Vec::new();
        for task in &tasks {
            let is_completed = site.record(*task).await.task.status == TaskStatus::Completed;
            completed.extend(is_completed.then_some(*task));
        }
        (!completed.is_empty()).then_some(completed)
    })
    .await;
    assert_eq!(completed.len(), 1, "one start an hour");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_breaker_takes_no_start_of_a_rate() {
    takes_no_start(only::<AtOnce>()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_breaker_takes_no_start_of_a_rate_between_steps() {
    takes_no_start(only::<AfterANote>()).await;
}
