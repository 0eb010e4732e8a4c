//! The report of a shop, and every fault at every step.

use counterstep::contracts::TaskStatus;
use counterstep::prelude::*;
use counterstep_testkit::{Form, Harness, sweep};
use nightly_report::{Sales, tasks};
use serde_json::json;
use std::path::Path;

fn registry() -> Registry {
    tasks(Sales::in_folder(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("sales"),
    ))
}

fn berlin() -> Form {
    Form::new().field("shop", "berlin")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_leaves_a_report_or_nothing() {
    sweep::every_fault(registry, berlin).await;
}

#[tokio::test]
async fn a_report_sums_up_and_is_stored() {
    let task = Harness::embedded(registry()).submit(berlin()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("sum_up ok, write ok, completed").await;
    let response = task.record().await.task.response.expect("a response");
    assert_eq!(response["sum"], json!({ "sales": 3, "cents": 1_750 }));
    assert_eq!(task.objects().await.len(), 1);
}

#[tokio::test]
async fn a_shop_that_could_be_a_path_is_refused() {
    let task = Harness::embedded(registry())
        .submit(Form::new().field("shop", "../etc"))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let failure = task.record().await.task.failure.expect("a reason");
    assert!(failure.message.contains("invalid shop"), "{failure:?}");
}

/// The schedule is read, and its request checked, when the registry is made.
#[test]
fn the_schedule_is_declared() {
    assert!(registry().schedules().contains_key("nightly"));
}
