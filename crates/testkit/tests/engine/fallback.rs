//! Fallbacks: what runs in place of a step that gave up, with attempts and retries of its own.

use crate::cancel::until;
use crate::errand::{QUICK, only};
use counterstep_contracts::{Host, Outcome, StepStatus, TaskStatus};
use counterstep_kernel::client;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::turn::turn;
use counterstep_macros::distributed_task;
use counterstep_steps::{
    AwaitSignal, BreakerPolicy, CancelToken, StepContext, StepError, StepResult, UndoResult,
};
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Order {
    /// How the main way of charging ends: `ok`, `permanent`, `busy`, `hang`.
    card: String,
    /// The same for the fallback.
    invoice: String,
    ask: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Charged(String);

pub(crate) struct Shop;

async fn behave(ctx: &StepContext, how: &str, what: &str) -> StepResult<Charged> {
    match how {
        "permanent" => Err(StepError::permanent(format_args!("{what} refused"))),
        "busy" => Err(StepError::transient(format_args!("{what} busy"))),
        "once" if ctx.attempt().0 == 2 => std::future::pending().await,
        "hang" => {
            ctx.cancel().cancelled().await;
            Err(StepError::cancelled())
        }
        _ => Ok(Charged(format!("by {what}"))),
    }
}

#[distributed_task(name = "Shop", queue = "shop", cancellable)]
impl Shop {
    type Request = Order;
    type Response = String;

    #[step(1, host = "worker", undo = put_back)]
    async fn pick(_ctx: &StepContext) -> StepResult<u32> {
        Ok(7)
    }

    async fn put_back(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", retry = QUICK, undo = refund, fallback = by_invoice)]
    async fn charge(ctx: &StepContext, order: &Order) -> StepResult<Charged> {
        behave(ctx, &order.card, "card").await
    }

    async fn by_invoice(ctx: &StepContext, order: &Order, pick: &u32) -> StepResult<Charged> {
        let charged = behave(ctx, &order.invoice, "invoice").await?;
        Ok(Charged(format!("{} over {pick}", charged.0)))
    }

    async fn refund(_out: Option<Charged>) -> UndoResult {
        Ok(())
    }

    #[step(3, host = "worker", when = asks, fallback = assume)]
    fn consent(_order: &Order) -> AwaitSignal<bool> {
        AwaitSignal::within("30ms")
    }

    fn asks(order: &Order) -> bool {
        order.ask
    }

    async fn assume(_order: &Order) -> StepResult<bool> {
        Ok(false)
    }

    fn respond(charge: &Charged, consent: Option<&bool>) -> String {
        format!("{}, {consent:?}", charge.0)
    }
}

fn form(card: &str, invoice: &str) -> Form {
    Form::new().field("card", card).field("invoice", invoice)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_fails_for_good_completes_by_its_fallback() {
    let task = Harness::embedded(only::<Shop>())
        .submit(form("permanent", "ok"))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("pick ok, charge falls back, charge ok, consent skipped, completed")
        .await;
    let record = task.record().await;
    assert_eq!(record.task.response, Some(json!("by invoice over 7, None")));
    assert!(record.steps[1].in_fallback && record.steps[1].error.is_none());
    let history = task.history().await;
    let outcomes: Vec<_> = history
        .attempts
        .iter()
        .filter(|row| row.step.0 == 2)
        .map(|row| row.outcome)
        .collect();
    assert_eq!(
        outcomes,
        [Some(Outcome::Failed), Some(Outcome::Succeeded)],
        "its own attempt"
    );
    let fell = history
        .audit
        .iter()
        .find(|row| row.entry.event == "step_falls_back")
        .expect("an entry");
    assert_eq!(fell.entry.details["error"], "card refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_without_fallback_in_need_does_not_use_it() {
    let task = Harness::embedded(only::<Shop>())
        .submit(form("ok", "permanent"))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(
        task.record().await.task.response,
        Some(json!("by card, None"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fallback_comes_after_the_last_retry_and_has_retries_of_its_own() {
    let task = Harness::embedded(only::<Shop>())
        .submit(form("busy", "busy"))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_trail(
        "pick ok, charge retries, charge retries, charge falls back, charge retries, charge retries, charge failed, \
         charge undone, pick undone, failed",
    )
    .await;
    let failure = task.record().await.task.failure.expect("a failure");
    assert_eq!(
        failure.message, "invoice busy",
        "the failure of the fallback is that of the step"
    );
    assert_eq!(task.record().await.steps[1].attempts.0, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_and_a_time_out_lead_to_the_fallback_too() {
    for kind in [FaultKind::Panic, FaultKind::Hang] {
        let mut harness = Harness::embedded(only::<Shop>())
            .settings(|settings| settings.longest_attempt = Some(Duration::from_millis(200)));
        for attempt in 1..=3 {
            harness = harness.fault(Fault::at("charge", kind).on_attempt(attempt));
        }
        let task = harness.submit(form("ok", "ok")).await;
        assert_eq!(
            task.run_to_rest().await,
            TaskStatus::Completed,
            "{kind:?}: {}",
            task.trail().await
        );
        assert!(
            task.trail().await.contains("charge falls back, "),
            "{kind:?}"
        );
        task.assert_invariants().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_lost_in_a_fallback_leads_to_the_fallback_again() {
    let task = Harness::embedded(only::<Shop>())
        .submit(form("permanent", "once"))
        .await;
    let (engine, id) = (task.engine.clone(), task.id);
    let doomed =
        tokio::spawn(async move { turn(&engine, Host::Worker, id, &CancelToken::new()).await });
    until(&task, |record| {
        record.steps[1].attempts.0 == 2 && record.steps[1].attempt_open
    })
    .await;
    doomed.abort();
    let _ = doomed.await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail(
        "pick ok, charge falls back, charge in doubt, charge ok, consent skipped, completed",
    )
    .await;
    assert_eq!(
        task.record().await.task.response,
        Some(json!("by invoice over 7, None"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_step_does_not_fall_back() {
    let task = Harness::embedded(only::<Shop>())
        .submit(form("hang", "ok"))
        .await;
    let cancel = async {
        until(&task, |record| {
            record.steps[1].status == StepStatus::Running
        })
        .await;
        client::cancel(&task.engine, task.id, "client")
            .await
            .expect("accepted");
    };
    let (status, ()) = futures::join!(task.run_to_rest(), cancel);
    assert_eq!(status, TaskStatus::Cancelled);
    task.assert_trail("pick ok, charge failed, charge undone, pick undone, cancelled")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_answers_a_fallback_may_answer() {
    let task = Harness::embedded(only::<Shop>())
        .submit(form("ok", "ok").field("ask", true))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail(
        "pick ok, charge ok, consent waits, consent falls back, consent ok, completed",
    )
    .await;
    let record = task.record().await;
    assert_eq!(record.task.response, Some(json!("by card, Some(false)")));
    assert_eq!(
        record.steps[2].attempts.0, 1,
        "the wait was no attempt, the fallback is one"
    );
}

const TERMINAL: BreakerPolicy = BreakerPolicy::named("terminal")
    .after_failures(3)
    .within("1h")
    .open_for("1h");

pub(crate) struct Kiosk;

#[distributed_task(name = "Kiosk", queue = "kiosk")]
impl Kiosk {
    type Request = Order;
    type Response = String;

    #[step(1, host = "worker", retry = QUICK, breaker = TERMINAL, no_undo = "test", fallback = in_cash)]
    async fn charge(ctx: &StepContext, order: &Order) -> StepResult<Charged> {
        behave(ctx, &order.card, "card").await
    }

    async fn in_cash(ctx: &StepContext, order: &Order) -> StepResult<Charged> {
        if ctx.attempt().0 == 4 {
            return Err(StepError::transient("no change"));
        }
        behave(ctx, &order.invoice, "cash").await
    }

    fn respond(charge: &Charged) -> String {
        charge.0.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fallback_goes_past_the_breaker_that_its_step_has_opened() {
    let task = Harness::embedded(only::<Kiosk>())
        .submit(form("busy", "ok"))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail(
        "charge retries, charge retries, charge falls back, charge retries, charge ok, completed",
    )
    .await;
    assert_eq!(task.record().await.task.response, Some(json!("by cash")));
}
