//! Approved, declined, too late; and every fault at every step.

use counterstep::contracts::TaskStatus;
use counterstep::prelude::*;
use counterstep_testkit::sweep::{Surroundings, every_fault_amid};
use counterstep_testkit::{Form, Harness, TestTask};
use serde_json::json;
use sign_up::{Office, tasks};
use std::sync::Arc;

fn office() -> Office {
    Office::in_folder(env!("CARGO_TARGET_TMPDIR"))
}

fn registry() -> Registry {
    tasks(office())
}

fn application(plan: &str) -> Form {
    Form::new()
        .field("name", "Ada")
        .field("mail", "ada@example.org")
        .field("plan", plan)
}

fn approved() -> Form {
    application("company").answer("approval", json!({ "approved": true, "by": "carla" }))
}

/// An account is there exactly where its task has completed.
struct Accounts;

impl Surroundings for Accounts {
    fn around(&self, harness: Harness) -> Harness {
        harness
    }

    fn assert_after(&self, task: &TestTask, status: TaskStatus) {
        let is_there = office().has_account(&task.id.to_string());
        assert_eq!(is_there, status == TaskStatus::Completed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_opens_an_account_or_leaves_none() {
    every_fault_amid(Arc::new(Accounts), registry, approved).await;
}

#[tokio::test]
async fn a_free_plan_is_opened_without_an_approval() {
    let task = Harness::embedded(registry())
        .submit(application("free"))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("reserve ok, approval skipped, decide ok, welcome ok, completed")
        .await;
}

#[tokio::test]
async fn an_application_that_is_declined_or_forgotten_leaves_no_account() {
    let declined = json!({ "approved": false, "by": "carla" });
    for (form, why) in [
        (
            application("company").answer("approval", declined),
            "carla declined",
        ),
        (
            application("company").never_answer("approval"),
            "no signal came within 14d",
        ),
    ] {
        let task = Harness::embedded(registry()).submit(form).await;
        assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
        let failure = task.record().await.task.failure.expect("a reason");
        assert!(failure.message.contains(why), "{failure:?}");
        assert!(!office().has_account(&task.id.to_string()));
    }
}
