//! Signals that are refused: what does not fit, what comes too late, and tasks whose type is
//! defined otherwise here.

use super::{Ask, Purchase, approve, form, purchase, waiting};
use crate::errand::only;
use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_kernel::Engine;
use counterstep_kernel::client;
use counterstep_kernel::client::SignalRefusal;
use counterstep_macros::distributed_task;
use counterstep_steps::AwaitSignal;
use counterstep_steps::output_limit::OutputLimit;
use counterstep_testkit::Harness;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// Changed without a new version: another step takes the signal's body for something else.
struct Changed;

#[derive(Debug, Serialize, Deserialize)]
struct Words(String);

#[distributed_task(name = "Purchase", queue = "purchases", cancellable)]
impl Changed {
    type Request = Ask;
    type Response = String;

    #[step(1, host = "worker")]
    fn approval(ask: &Ask) -> AwaitSignal<Words> {
        AwaitSignal::within(&ask.within)
    }

    fn respond(approval: &Words) -> String {
        approval.0.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_with_another_definition_of_the_type_takes_no_signal_for_its_tasks() {
    let task = waiting("72h").await;
    let before = task.record().await.task;
    let ports = task.engine.ports.clone();
    let stranger = Engine::new(
        ports,
        Arc::new(only::<Changed>()),
        (*task.engine.settings).clone(),
        "other",
    );
    let refused = client::signal(&stranger, task.id, "approval", json!("yes"), "client")
        .await
        .expect_err("refused");
    assert!(matches!(refused, SignalRefusal::UnknownType), "{refused:?}");
    assert_eq!(task.record().await.task, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_is_larger_than_an_output_may_be_is_refused() {
    let harness = Harness::embedded(only::<Purchase>())
        .settings(|settings| settings.output_limit = OutputLimit(1000));
    let task = harness.submit(form(500, "72h")).await;
    let refused = approve(&task, json!({"by": "a".repeat(1000)}))
        .await
        .expect_err("too large");
    assert!(
        matches!(&refused, SignalRefusal::Invalid(why) if why.message.contains("1000 bytes")),
        "{refused:?}"
    );
    approve(&task, json!({"by": "a".repeat(900)}))
        .await
        .expect("small enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_for_a_step_that_is_skipped_is_too_late() {
    let task = purchase(5, "72h").await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("reserve ok, approval skipped, remark waits, remark ok, completed")
        .await;
    let late = approve(&task, json!({"by": "anna"}))
        .await
        .expect_err("the task no longer waits for it");
    assert!(
        matches!(
            late,
            SignalRefusal::TooLate {
                step: StepStatus::Skipped,
                ..
            }
        ),
        "{late:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_and_changes_nothing() {
    let task = waiting("72h").await;
    let before = task.record().await.task.rev;
    for (body, pointer) in [
        (json!({"by": 7}), "by"),
        (json!({"by": "anna", "why": "?"}), "why"),
        (json!({}), "."),
        (json!(null), "."),
    ] {
        match approve(&task, body.clone()).await {
            Err(SignalRefusal::Invalid(error)) => {
                assert_eq!(error.pointer, pointer, "{body}: {error}")
            }
            other => panic!("{body}: {other:?}"),
        }
    }
    for name in ["reserve", "nothing"] {
        match client::signal(&task.engine, task.id, name, json!({}), "client").await {
            Err(SignalRefusal::NoSuchSignal { known }) => assert_eq!(known, ["approval", "remark"]),
            other => panic!("{name}: {other:?}"),
        }
    }
    let stranger = task.engine.new_task_id();
    let refused = client::signal(
        &task.engine,
        stranger,
        "approval",
        json!({"by": "anna"}),
        "client",
    )
    .await;
    assert!(matches!(refused, Err(SignalRefusal::Gone)), "{refused:?}");
    assert_eq!(task.record().await.task.rev, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_wait_is_undone_and_takes_no_signal_any_more() {
    let task = waiting("72h").await;
    client::cancel(&task.engine, task.id, "client")
        .await
        .expect("accepted");
    let late = approve(&task, json!({"by": "anna"}))
        .await
        .expect_err("a cancel was accepted");
    assert!(
        matches!(
            late,
            SignalRefusal::TooLate {
                cancelled: true,
                ..
            }
        ),
        "{late:?}"
    );
    assert_eq!(task.run_to_rest().await, TaskStatus::Cancelled);
    task.assert_trail("reserve ok, approval waits, reserve undone, cancelled")
        .await;
}
