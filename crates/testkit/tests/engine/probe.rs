//! Steps in doubt whose probe finds out what became of them, and undos: fresh tokens, limits,
//! crashes at any point.

use crate::errand::{Errand, only};
use crate::lost::lost_in;
use counterstep_contracts::{Direction, StepStatus, TaskStatus};
use counterstep_kernel::client;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_macros::distributed_task;
use counterstep_steps::{Probe, RetryPolicy, StepContext, StepError, StepResult, UndoResult};
use counterstep_testkit::{Form, Harness, TestTask};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Sale {
    /// What the probe is to say: `done`, `nothing`, `panic`, or anything else for "unknown".
    bank_says: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Charged(String);

const PATIENT: RetryPolicy = RetryPolicy::constant("20ms")
    .max_retries(2)
    .attempt_timeout("300ms");

struct Till;

#[distributed_task(cancellable)]
impl Till {
    type Request = Sale;
    type Response = String;

    #[step(1, host = "worker", undo = put_back)]
    async fn scan() -> StepResult<u32> {
        Ok(1)
    }

    async fn put_back(ctx: &StepContext) -> UndoResult {
        // The cancel that led here must not cancel the undo.
        if ctx.cancel().is_cancelled() {
            Err(StepError::permanent("its token is not fresh"))
        } else {
            Ok(())
        }
    }

    #[step(2, host = "worker", probe = ask_the_bank, probe_retry = PATIENT, on_probe_failure = "run_again",
           undo = pay_back, undo_retry = PATIENT)]
    async fn charge(ctx: &StepContext) -> StepResult<Charged> {
        Ok(Charged(ctx.execution_key()))
    }

    async fn ask_the_bank(
        ctx: &StepContext,
        sale: &Sale,
        scan: &u32,
    ) -> StepResult<Probe<Charged>> {
        assert_eq!(*scan, 1);
        match sale.bank_says.as_str() {
            "done" => Ok(Probe::Done(Charged(format!(
                "found under {}",
                ctx.effect_key()
            )))),
            "nothing" => Ok(Probe::NothingHappened),
            "panic" => panic!("the bank is on fire"),
            other => Err(StepError::transient(format_args!(
                "the bank says {other:?}"
            ))),
        }
    }

    async fn pay_back(charged: Option<Charged>, sale: &Sale) -> UndoResult {
        // Where the bank had the charge, its undo is told which.
        match (sale.bank_says.as_str(), charged) {
            ("done", None) => Err(StepError::permanent(
                "what the probe found did not reach the undo",
            )),
            _ => Ok(()),
        }
    }

    #[step(3, host = "worker", undo = no_bag, undo_retry = PATIENT)]
    async fn bag(_charge: &Charged) -> StepResult<bool> {
        Ok(true)
    }

    async fn no_bag() -> UndoResult {
        Ok(())
    }

    fn respond(charge: &Charged) -> String {
        charge.0.clone()
    }
}

fn sale(bank_says: &str) -> Form {
    Form::new().field("bank_says", bank_says)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_had_taken_effect_is_not_run_again() {
    let task = Harness::embedded(only::<Till>())
        .crash_at("charge")
        .submit(sale("done"))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("scan ok, charge in doubt, charge found done, bag ok, completed")
        .await;
    let record = task.record().await;
    assert_eq!(record.steps[1].attempts.0, 1);
    assert_eq!(
        record.task.response,
        Some(format!("found under {}:charge", task.id).into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_had_not_runs_again_and_one_of_unknown_outcome_where_it_may() {
    let tried = "charge probe retries, charge probe retries, ";
    for (bank_says, word, tried) in [
        ("nothing", "nothing_happened", ""),
        ("?", "unknown", tried),
        ("panic", "unknown", tried),
    ] {
        let task = Harness::embedded(only::<Till>())
            .crash_at("charge")
            .submit(sale(bank_says))
            .await;
        assert_eq!(
            task.run_to_rest().await,
            TaskStatus::Completed,
            "{bank_says}"
        );
        task.assert_trail(&format!(
            "scan ok, charge in doubt, {tried}charge ok, bag ok, completed"
        ))
        .await;
        let history = task.history().await;
        let starts: Vec<_> = history
            .audit
            .iter()
            .filter(|row| row.entry.event == "step_started")
            .collect();
        assert_eq!(starts[2].entry.details["probe"], word);
    }
}

/// A task that lost its host in the middle of `charge` and was then cancelled.
async fn cancelled_in_doubt(bank_says: &str) -> TestTask {
    let fault = Fault::at("charge", FaultKind::Hang).on_attempt(1);
    let task = Harness::embedded(only::<Till>())
        .fault(fault.clone())
        .submit(sale(bank_says))
        .await;
    lost_in(&task.engine, task.id, &fault).await;
    assert_eq!(task.record().await.steps[1].status, StepStatus::Running);
    client::cancel(&task.engine, task.id, "client")
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Cancelled);
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_had_not_taken_effect_needs_no_undo() {
    let task = cancelled_in_doubt("nothing").await;
    task.assert_trail("scan ok, charge in doubt, charge found not done, scan undone, cancelled")
        .await;
    assert_eq!(task.record().await.steps[1].undo_attempts.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_undo_of_a_step_in_doubt_gets_what_the_probe_found() {
    let tried = "charge probe retries, charge probe retries, ";
    for (bank_says, tried) in [("done", ""), ("?", tried)] {
        let task = cancelled_in_doubt(bank_says).await;
        task.assert_trail(&format!(
            "scan ok, charge in doubt, {tried}charge undone, scan undone, cancelled"
        ))
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_that_hangs_runs_into_the_limit_of_its_own_policy() {
    let harness = Harness::embedded(only::<Till>())
        .settings(|settings| settings.step_timeout = Duration::from_secs(600))
        .fail_at("bag")
        .fault(Fault::at("bag", FaultKind::Hang).in_undo().on_attempt(1));
    let task = harness.submit(sale("?")).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_trail(
        "scan ok, charge ok, bag failed, bag undo retries, bag undone, charge undone, scan undone, failed",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_goes_on_after_a_crash_wherever_it_was() {
    for step in ["deliver", "pay", "pick", "note"] {
        let task = Harness::embedded(only::<Errand>())
            .fail_at("deliver")
            .crash_in_undo_of(step)
            .submit(Form::new())
            .await;
        assert_eq!(task.run_to_rest().await, TaskStatus::Failed, "{step}");
        task.assert_invariants().await;
        let trail = task.trail().await;
        assert!(trail.contains(&format!("{step} undo in doubt")), "{trail}");
        for other in ["deliver", "pay", "pick", "note"] {
            assert_eq!(
                trail.matches(&format!("{other} undone")).count(),
                1,
                "{step}: {trail}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_undo_is_written_down_with_all_that_a_person_needs() {
    let harness = Harness::embedded(only::<Till>())
        .fail_at("bag")
        .fault(Fault::at("charge", FaultKind::FailTransiently).in_undo());
    let task = harness.submit(sale("?")).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::CompensationFailed);
    let history = task.history().await;
    let failed = &history
        .audit
        .iter()
        .find(|row| row.entry.event == "undo_failed")
        .expect("the entry")
        .entry;
    assert_eq!(
        failed.details["attempts"], 3,
        "its own policy allows two retries"
    );
    assert_eq!(failed.details["class"], "transient");
    assert_eq!(failed.details["error"], "planted: fails for now");
    let undos = history
        .attempts
        .iter()
        .filter(|row| row.direction == Direction::Undo && row.step.0 == 2)
        .count();
    assert_eq!(undos, 3);
}
