//! Probes that fail: tried again under their policy, over crashes and waits, and what follows when one
//! gives up. The bank is a real HTTP service, and counts what it is asked to do.

use crate::errand::only;
use crate::lost::lost_at;
use counterstep_contracts::{Direction, Host, StepStatus, TaskStatus, WaitReason};
use counterstep_kernel::client;
use counterstep_kernel::operator::{self, Resolution, Retrial, undo_plan, why};
use counterstep_kernel::turn::turn;
use counterstep_macros::distributed_task;
use counterstep_steps::{
    CancelToken, HttpCall, Probe, RetryPolicy, StepContext, StepError, StepResult, UndoResult,
};
use counterstep_testkit::services::{Services, Trouble};
use counterstep_testkit::{Form, Harness, TestTask};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const POST: &str = "POST /bank/charges";
const GET: &str = "GET /bank/charges";
const REFUND: &str = "POST /bank/refunds";

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Order {
    /// How the probe fails, where the bank does not: `panic`, `permanent`.
    probe: String,
}

const SOON: RetryPolicy = RetryPolicy::constant("20ms").max_retries(2);

struct Checkout;

#[distributed_task(timeout = "1h", cancellable)]
impl Checkout {
    type Request = Order;
    type Response = Value;

    #[step(1, host = "worker", retry = SOON, probe = look, undo = refund)]
    async fn charge(ctx: &StepContext) -> StepResult<Value> {
        let body = json!({"account": "anna", "amount_cents": 700});
        ctx.call(HttpCall::post("bank", "/charges").json(&body))
            .await
    }

    async fn look(ctx: &StepContext, order: &Order) -> StepResult<Probe<Value>> {
        let call = HttpCall::<Value>::get("bank", "/charges").segment(ctx.effect_key());
        let found = ctx.call(call.accepting(404)).await?;
        match order.probe.as_str() {
            "panic" => panic!("the bank is on fire"),
            "permanent" => Err(StepError::permanent("no such bank")),
            _ if found.get("charge_id").is_some() => Ok(Probe::Done(found)),
            _ => Ok(Probe::NothingHappened),
        }
    }

    async fn refund(ctx: &StepContext, charge: Option<Value>) -> UndoResult {
        if charge.is_none() {
            return Err(StepError::permanent("the undo got no receipt"));
        }
        let body = json!({"charge": ctx.step_key()});
        ctx.call(HttpCall::<()>::post("bank", "/refunds").json(&body))
            .await
    }

    fn respond(charge: &Value) -> Value {
        charge.clone()
    }
}

/// The bank has booked, and the worker died before it had the answer.
async fn booked_and_lost(services: &Services, probe: &str) -> TestTask {
    services.plant(POST, Trouble::Silent);
    let form = Form::new().field("probe", probe);
    let harness = Harness::embedded(only::<Checkout>()).services(services.http_services());
    let task = harness.submit(form).await;
    lost_at(&task.engine, task.id, || services.balance("shop") == 700).await;
    assert_eq!(task.record().await.steps[0].status, StepStatus::Running);
    task
}

fn refuse(services: &Services, times: usize, retry_after: Option<&str>) {
    for _ in 0..times {
        let trouble = Trouble::Refuses(503, retry_after.map(str::to_owned));
        services.plant(GET, trouble);
    }
}

fn retrial(direction: Option<Direction>) -> Retrial {
    Retrial {
        direction,
        edit: None,
        actor: "operator:kim".to_owned(),
        note: "the bank is back".to_owned(),
        bulk: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_that_fails_once_is_tried_again_and_nothing_is_paid_twice() {
    let services = Services::start().await;
    let task = booked_and_lost(&services, "").await;
    refuse(&services, 1, None);
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("charge in doubt, charge probe retries, charge found done, completed")
        .await;
    assert_eq!((services.requests(POST), services.requests(GET)), (1, 2));
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_gives_up_parks_the_task_and_a_retry_asks_it_again() {
    let services = Services::start().await;
    let task = booked_and_lost(&services, "").await;
    refuse(&services, 3, None);
    assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
    let record = task.record().await;
    let failure = record.task.failure.clone().expect("a failure");
    assert_eq!(failure.class, "in_doubt");
    assert!(
        failure
            .message
            .starts_with("unknown whether it happened: its probe gave up: "),
        "{}",
        failure.message
    );
    let told = why(&task.engine.registry, &record);
    assert!(
        told.because[0]
            .detail
            .contains("unknown whether it happened"),
        "{told:?}"
    );
    assert_eq!(told.because[0].steps, ["charge"]);
    operator::retry(&task.engine, task.id, retrial(None))
        .await
        .expect("it goes on");
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail(
        "charge in doubt, charge probe retries, charge probe retries, charge probe failed, dead_lettered, \
         charge found done, completed",
    )
    .await;
    assert_eq!(services.requests(POST), 1);
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_may_say_what_a_probe_could_not_find_out() {
    let services = Services::start().await;
    let task = booked_and_lost(&services, "permanent").await;
    assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
    let done = Resolution {
        step: Some("charge".to_owned()),
        settled: counterstep_contracts::SettledAs::Done,
        output: Some(json!({"charge_id": "by phone"})),
        task: None,
        actor: "operator:kim".to_owned(),
        note: "asked the bank".to_owned(),
        bulk: None,
    };
    operator::resolve(&task.engine, task.id, done)
        .await
        .expect("it goes on");
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail(
        "charge in doubt, charge probe failed, dead_lettered, charge supplied, completed",
    )
    .await;
    assert_eq!(services.requests(POST), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_wait_for_the_next_try_holds_no_lease_and_outlives_a_cancel() {
    let services = Services::start().await;
    let task = booked_and_lost(&services, "").await;
    refuse(&services, 1, Some("30"));
    task.clock.advance_by(task.engine.settings.lease * 2);
    turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await;
    let record = task.run_to_wait().await;
    assert_eq!(record.task.waiting, Some(WaitReason::Retry));
    assert_eq!(
        (&record.task.lease_owner, services.requests(GET)),
        (&None, 1)
    );
    let row = &record.steps[0];
    assert_eq!(row.status, StepStatus::InDoubt);
    assert_eq!(row.probe.expect("it was asked").retries_used, 1);
    let told = why(&task.engine.registry, &record);
    assert!(
        told.because[0].detail.contains(
            "the probe that finds out whether it happened is tried again then, of charge"
        ),
        "{told:?}"
    );
    client::cancel(&task.engine, task.id, "client")
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Cancelled);
    task.assert_trail("charge in doubt, charge probe retries, charge undone, cancelled")
        .await;
    assert_eq!((services.requests(GET), services.requests(REFUND)), (2, 1));
    assert_eq!((services.requests(POST), services.balance("shop")), (1, 0));
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_waits_for_a_person_where_its_probe_gave_up() {
    let services = Services::start().await;
    let task = booked_and_lost(&services, "").await;
    client::cancel(&task.engine, task.id, "client")
        .await
        .expect("accepted");
    refuse(&services, 3, None);
    assert_eq!(task.run_to_rest().await, TaskStatus::CompensationFailed);
    let record = task.record().await;
    assert_eq!(services.requests(REFUND), 0);
    let error = record.steps[0].error.as_ref().expect("an error");
    assert!(error.message.starts_with("unknown whether it happened"));
    let task_type = task.engine.registry.of(&*record.task).expect("known");
    let plan = undo_plan(&task_type, &record);
    let planned = &plan.stages[0].steps[0];
    assert_eq!(
        (planned.in_doubt, planned.probe.as_deref()),
        (true, Some("look"))
    );
    operator::retry(&task.engine, task.id, retrial(None))
        .await
        .expect("it goes on");
    assert_eq!(task.run_to_rest().await, TaskStatus::Cancelled);
    task.assert_trail(
        "charge in doubt, charge probe retries, charge probe retries, charge probe failed, compensation_failed, \
         charge probe redriven, charge undone, cancelled",
    )
    .await;
    assert_eq!((services.requests(POST), services.requests(REFUND)), (1, 1));
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_tried_again_and_a_permanent_error_is_not() {
    for (probe, tries) in [("panic", 3), ("permanent", 1)] {
        let services = Services::start().await;
        let task = booked_and_lost(&services, probe).await;
        assert_eq!(
            task.run_to_rest().await,
            TaskStatus::DeadLettered,
            "{probe}"
        );
        assert_eq!(services.requests(GET), tries, "{probe}");
        assert_eq!(services.requests(POST), 1, "{probe}");
    }
}
