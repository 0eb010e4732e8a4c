//! Backward: retries of undos, undos that give up, and what is parked then.

use crate::errand::{Errand, Stubborn, only};
use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_macros::distributed_task;
use counterstep_steps::{StepContext, StepResult, UndoResult};
use counterstep_testkit::{Form, Harness};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::sync::{Arc, OnceLock};

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_is_retried_under_its_own_policy() {
    let refund = |n| {
        Fault::at("pay", FaultKind::FailTransiently)
            .in_undo()
            .on_attempt(n)
    };
    let harness = Harness::embedded(only::<Errand>())
        .fail_at("deliver")
        .fault(refund(1))
        .fault(refund(2));
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_invariants().await;
    let record = task.record().await;
    assert_eq!(
        (
            record.steps[2].undo_attempts.0,
            record.steps[2].undo_retries_used
        ),
        (3, 2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_that_gives_up_parks_the_task_and_leaves_earlier_steps_alone() {
    let harness = Harness::embedded(only::<Errand>())
        .fail_at("deliver")
        .fault(Fault::at("pay", FaultKind::FailAfter).in_undo());
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::CompensationFailed);
    let record = task.record().await;
    assert_eq!(record.steps[2].status, StepStatus::CompensationFailed);
    assert_eq!(
        record.steps[0].status,
        StepStatus::Completed,
        "a barrier: its predecessor is not touched"
    );
    let history = task.history().await;
    let entry = history
        .audit
        .iter()
        .find(|row| row.entry.event == "undo_failed")
        .expect("the entry");
    assert_eq!(
        entry.entry.details["error"],
        "planted: fails after its work"
    );
    assert_eq!(entry.entry.details["attempts"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_request_the_other_steps_are_undone_before_the_task_is_parked() {
    let harness = Harness::embedded(only::<Stubborn>())
        .fault(Fault::at("four", FaultKind::FailBefore))
        .fault(Fault::at("two", FaultKind::FailAfter).in_undo());
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::CompensationFailed);
    task.assert_trail(
        "one ok, two ok, three ok, four failed, four undone, three undone, two undo failed, one undone, \
         compensation_failed",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panicking_undo_is_an_attempt_that_failed() {
    let harness = Harness::embedded(only::<Errand>())
        .fail_at("deliver")
        .fault(Fault::at("note", FaultKind::Panic).in_undo().on_attempt(1));
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_invariants().await;
    assert!(
        task.trail()
            .await
            .contains("note undo retries, note undone"),
        "{}",
        task.trail().await
    );
}

/// Lines of the log of all tests of this program.
#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Starts the log. For the whole process: `tracing` remembers for each line whether it is wanted, by the
/// thread that logs it first, so that a log of one thread loses lines to tests that run beside it.
fn log() -> Lines {
    static LOG: OnceLock<Lines> = OnceLock::new();
    let start = || {
        let log = Lines::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_max_level(tracing::Level::ERROR);
        tracing::subscriber::set_global_default(lines.with_writer(move || writer.clone()).finish())
            .expect("the only log");
        log
    };
    LOG.get_or_init(start).clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_critical_line_names_the_step_and_its_error_also_where_the_others_are_undone_first() {
    let log = log();
    let harness = Harness::embedded(only::<Stubborn>())
        .fault(Fault::at("four", FaultKind::FailBefore))
        .fault(Fault::at("two", FaultKind::FailAfter).in_undo());
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::CompensationFailed);
    let log = String::from_utf8(log.0.lock().clone()).expect("text");
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let is_alert = |line: &serde_json::Value| {
        line["severity"] == "critical" && line["task"] == task.id.to_string()
    };
    let critical: Vec<_> = lines.filter(is_alert).collect();
    let [line] = &critical[..] else {
        panic!("one critical line: {log}")
    };
    assert_eq!(line["steps"], "two");
    assert!(
        line["error"]
            .as_str()
            .is_some_and(|error| error.contains("planted: fails after its work")),
        "{line}"
    );
}

#[derive(Serialize, Deserialize)]
struct Empty {}

/// Gives out what JSON has no form for, once it has had its effect.
struct Weigh;

#[distributed_task(name = "Weigh", queue = "scales")]
impl Weigh {
    type Request = Empty;
    type Response = f64;

    #[step(1, host = "worker", undo = take_down)]
    async fn put_up(_ctx: &StepContext) -> StepResult<f64> {
        Ok(0.0_f64.ln() - f64::NEG_INFINITY)
    }

    async fn take_down(_ctx: &StepContext) -> UndoResult {
        Ok(())
    }

    fn respond(put_up: &f64) -> f64 {
        *put_up
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_json_has_no_form_for_fails_its_step_and_is_undone() {
    let task = Harness::embedded(only::<Weigh>()).submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let failure = task.record().await.task.failure.expect("a failure");
    assert_eq!(failure.class.as_str(), "permanent");
    let says = &failure.message;
    assert!(says.contains("NaN has no JSON form"), "{says}");
    task.assert_trail("put_up failed, put_up undone, failed")
        .await;
    task.assert_invariants().await;
}
