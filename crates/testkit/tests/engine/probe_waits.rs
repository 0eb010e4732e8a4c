//! Probes of steps side by side, deadlines that pass while a probe waits for its next try, and probes that
//! do not return. What a probe would find is the worker's own log of what it has booked.

use crate::errand::only;
use crate::lost::{lost_at, lost_in};
use counterstep_contracts::{Host, StepStatus, TaskStatus, WaitReason};
use counterstep_kernel::client;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::turn::turn;
use counterstep_macros::distributed_task;
use counterstep_steps::{
    CancelToken, Probe, RetryPolicy, StepContext, StepError, StepResult, UndoResult,
};
use counterstep_testkit::{Form, Harness, TestTask};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Twice, and each try of a probe is cut short.
const SOON: RetryPolicy = RetryPolicy::constant("20ms")
    .max_retries(2)
    .attempt_timeout("300ms");

const ONCE: RetryPolicy = RetryPolicy::constant("20ms").max_retries(0);

/// Longer than the deadline of a trip.
const LATER: RetryPolicy = RetryPolicy::constant("2h")
    .cap("2h")
    .max_retries(2)
    .jitter(false)
    .attempt_timeout("300ms");

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Journey {
    /// The hotel has no room left, once asked again.
    full: bool,
}

struct Trip;

#[distributed_task(timeout = "1h", cancellable)]
impl Trip {
    type Request = Journey;
    type Response = u8;

    #[step(1, host = "worker", undo = unpack)]
    async fn pack() -> StepResult<u8> {
        Ok(1)
    }

    async fn unpack() -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", group = "book", probe = find_flight, probe_retry = LATER, undo = no_flight)]
    async fn flight() -> StepResult<u8> {
        Ok(2)
    }

    async fn find_flight() -> StepResult<Probe<u8>> {
        Ok(Probe::Done(22))
    }

    async fn no_flight(flight: Option<u8>) -> UndoResult {
        match flight {
            Some(2 | 22) => Ok(()),
            other => Err(StepError::permanent(format_args!(
                "which flight: {other:?}"
            ))),
        }
    }

    #[step(3, host = "worker", group = "book", retry = ONCE, probe = find_hotel, probe_retry = SOON, undo = no_hotel)]
    async fn hotel(ctx: &StepContext, journey: &Journey) -> StepResult<u8> {
        if journey.full && ctx.attempt().0 > 1 {
            return Err(StepError::permanent("no room"));
        }
        Ok(3)
    }

    async fn find_hotel(journey: &Journey) -> StepResult<Probe<u8>> {
        Ok(if journey.full {
            Probe::NothingHappened
        } else {
            Probe::Done(33)
        })
    }

    async fn no_hotel() -> UndoResult {
        Ok(())
    }

    fn respond(flight: &u8, hotel: &u8) -> u8 {
        flight + hotel
    }
}

/// The host was lost while both bookings were under way; then these faults strike.
async fn both_in_doubt(form: Form, faults: impl IntoIterator<Item = Fault>) -> TestTask {
    let hang = |step| Fault::at(step, FaultKind::Hang).on_attempt(1);
    let (flight, hotel) = (hang("flight"), hang("hotel"));
    let harness = Harness::embedded(only::<Trip>())
        .fault(flight.clone())
        .fault(hotel.clone());
    let harness = faults.into_iter().fold(harness, Harness::fault);
    let task = harness.submit(form).await;
    let both = || flight.struck() > 0 && hotel.struck() > 0;
    lost_at(&task.engine, task.id, both).await;
    task
}

fn in_probe(step: &str, kind: FaultKind) -> Fault {
    Fault::at(step, kind).in_probe()
}

/// Gives it turns until its flight's probe waits for its next try.
async fn until_the_probe_waits(task: &TestTask) {
    task.clock.advance_by(task.engine.settings.lease * 2);
    turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await;
    let record = task.run_to_wait().await;
    assert_eq!(record.task.waiting, Some(WaitReason::Retry));
    assert_eq!(record.task.lease_owner, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_probe_has_found_is_kept_where_the_one_beside_it_gives_up() {
    let gives_up = in_probe("flight", FaultKind::FailAfter).on_attempt(1);
    let task = both_in_doubt(Form::new(), [gives_up]).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
    let steps = task.record().await.steps;
    assert_eq!(steps[1].status, StepStatus::InDoubt);
    assert_eq!(steps[2].status, StepStatus::Completed);
    assert_eq!(steps[2].output, Some(33.into()));
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_beside_one_whose_probe_waits_goes_on() {
    let fails = in_probe("flight", FaultKind::FailTransiently).on_attempt(1);
    let task = both_in_doubt(Form::new(), [fails]).await;
    until_the_probe_waits(&task).await;
    let steps = task.record().await.steps;
    assert_eq!(steps[1].status, StepStatus::InDoubt);
    assert_eq!(steps[2].status, StepStatus::Completed);
    // The deadline comes before the next try.
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_trail(
        "pack ok, flight in doubt, hotel in doubt, flight probe retries, hotel found done, hotel undone, \
         flight undone, pack undone, failed",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_fails_beside_one_whose_probe_waits_has_both_undone() {
    let fails = in_probe("flight", FaultKind::FailTransiently).on_attempt(1);
    let full = Form::new().field("full", true);
    let task = both_in_doubt(full, [fails]).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let record = task.record().await;
    let failure = record.task.failure.expect("a failure");
    assert_eq!(failure.step.as_deref(), Some("hotel"));
    task.assert_trail(
        "pack ok, flight in doubt, hotel in doubt, flight probe retries, hotel failed, hotel undone, \
         flight undone, pack undone, failed",
    )
    .await;
    assert_eq!(record.steps[1].output, Some(22.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_undo_beside_a_probe_that_gives_up_is_done_and_nothing_before_them() {
    let gives_up = in_probe("flight", FaultKind::FailAfter).on_attempt(1);
    let task = both_in_doubt(Form::new(), [gives_up]).await;
    client::cancel(&task.engine, task.id, "client")
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::CompensationFailed);
    let statuses: Vec<_> = task
        .record()
        .await
        .steps
        .iter()
        .map(|row| row.status)
        .collect();
    assert_eq!(
        statuses,
        [
            StepStatus::Completed,
            StepStatus::CompensationFailed,
            StepStatus::Compensated
        ]
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_does_not_wait_for_the_next_try_of_a_probe() {
    let fails = in_probe("flight", FaultKind::FailTransiently).on_attempt(1);
    let task = both_in_doubt(Form::new(), [fails]).await;
    until_the_probe_waits(&task).await;
    let left = task.record().await.due_in();
    assert!(left < Duration::from_secs(3601), "{left:?}");
    task.clock.advance_by(left);
    turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await;
    let record = task.record().await;
    assert_eq!(record.task.status, TaskStatus::Compensating);
    let failure = record.task.failure.expect("a failure");
    assert_eq!(failure.class, "deadline");
    assert_eq!(record.steps[2].status, StepStatus::Compensated);
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    assert_eq!(task.record().await.steps[1].undo_attempts.0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_does_not_return_is_cut_short_and_tried_again() {
    let hangs = in_probe("hotel", FaultKind::HangBefore).on_attempt(1);
    let task = both_in_doubt(Form::new(), [hangs]).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let history = task.history().await;
    let retries = history
        .audit
        .iter()
        .find(|row| row.entry.event == "probe_retries");
    let details = &retries.expect("the entry").entry.details;
    assert_eq!(details["class"], "timed_out");
    assert_eq!(details["error"], "the probe ran longer than 300ms");
    assert_eq!(task.record().await.steps[2].attempts.0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_never_returns_parks_the_task() {
    let hangs = in_probe("hotel", FaultKind::HangBefore);
    let task = both_in_doubt(Form::new(), [hangs.clone()]).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
    assert_eq!(hangs.struck(), 3);
    let failure = task.record().await.task.failure.expect("a failure");
    assert_eq!(failure.class, "in_doubt");
    assert_eq!(
        failure.message,
        "unknown whether it happened: its probe gave up: the probe ran longer than 300ms"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_lost_in_a_probe_uses_up_no_try_and_a_cancel_waits_for_the_answer() {
    let hangs = in_probe("hotel", FaultKind::HangBefore).on_attempt(1);
    let harness = Harness::embedded(only::<Trip>()).crash_at("hotel");
    let task = harness.crash_in_probe_of("hotel").submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let row = task.record().await.steps[2].clone();
    assert_eq!((row.attempts.0, row.probe), (1, None));

    let task = both_in_doubt(Form::new(), [hangs.clone()]).await;
    task.clock.advance_by(task.engine.settings.lease * 2);
    lost_in(&task.engine, task.id, &hangs).await;
    client::cancel(&task.engine, task.id, "client")
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Cancelled);
    let record = task.record().await;
    assert_eq!(record.steps[2].output, Some(33.into()));
    task.assert_invariants().await;
}
