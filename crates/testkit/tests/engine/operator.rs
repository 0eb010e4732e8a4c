//! What a person decides about a parked task, and what that leads to.

use crate::cancel::until;
use crate::errand::{Errand, Hasty, Stubborn, only};
use counterstep_contracts::SettledAs;
use counterstep_contracts::{Direction, StepStatus, TaskStatus};
use counterstep_kernel::change::events::{COMPENSATION_FAILED, events_of};
use counterstep_kernel::draft::{As, Draft};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::operator;
use counterstep_kernel::operator::{OperatorError, Resolution, Retrial, undo_plan, why};
use counterstep_kernel::ports::{ServiceError, ServiceRequest};
use counterstep_macros::distributed_task;
use counterstep_steps::{HttpCall, RetryPolicy, StepContext, StepError, StepResult, UndoResult};
use counterstep_testkit::{Form, Harness, TestTask};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) fn resolution(
    step: Option<&str>,
    settled: SettledAs,
    output: Option<Value>,
) -> Resolution {
    let (actor, note) = ("operator:kim".to_owned(), "seen to it".to_owned());
    Resolution {
        step: step.map(str::to_owned),
        settled,
        output,
        task: None,
        actor,
        note,
        bulk: None,
    }
}

fn retrial(direction: Option<Direction>) -> Retrial {
    Retrial {
        direction,
        edit: None,
        actor: "operator:kim".to_owned(),
        note: "it was the network".to_owned(),
        bulk: None,
    }
}

/// An errand whose payment cannot be given back at first.
async fn half_undone() -> TestTask {
    let harness = Harness::embedded(only::<Errand>())
        .fail_at("deliver")
        .fault(
            Fault::at("pay", FaultKind::FailAfter)
                .in_undo()
                .on_attempt(1),
        );
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::CompensationFailed);
    task
}

/// A task that was parked going forward, at its third step.
async fn dead_letter() -> TestTask {
    let fault = Fault::at("three", FaultKind::FailBefore).on_attempt(1);
    let task = Harness::embedded(only::<Stubborn>())
        .fault(fault)
        .submit(Form::new())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
    task
}

async fn entry(task: &TestTask, event: &str) -> counterstep_kernel::record::AuditEntry {
    let history = task.history().await;
    let found = history
        .audit
        .into_iter()
        .rev()
        .find(|row| row.entry.event == event);
    found.unwrap_or_else(|| panic!("no {event}")).entry
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_undo_gets_its_retries_anew_and_the_rest_follows() {
    let task = half_undone().await;
    let answer = operator::retry(&task.engine, task.id, retrial(None))
        .await
        .expect("accepted");
    assert_eq!(answer.status, TaskStatus::Compensating);
    assert_eq!(answer.will_undo, ["pay", "note"]);
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let trail = task.trail().await;
    assert!(
        trail.ends_with("compensation_failed, pay undo redriven, pay undone, note undone, failed"),
        "{trail}"
    );
    task.assert_invariants().await;
    let record = task.record().await;
    assert_eq!(
        (
            record.steps[2].undo_attempts.0,
            record.steps[2].undo_retries_used
        ),
        (2, 0)
    );
    let decided = entry(&task, "operator_retried_undo").await;
    assert_eq!(
        (decided.actor.as_str(), &decided.details["note"]),
        ("operator:kim", &json!("it was the network"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_was_undone_by_hand_lets_the_others_be_undone() {
    let task = half_undone().await;
    let answer = operator::resolve(
        &task.engine,
        task.id,
        resolution(Some("pay"), SettledAs::Undone, None),
    )
    .await
    .expect("accepted");
    assert_eq!(
        (answer.status, answer.will_undo),
        (TaskStatus::Compensating, vec!["note".to_owned()])
    );
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let record = task.record().await;
    assert_eq!(record.steps[2].status, StepStatus::Resolved);
    assert!(!record.task.residue);
    task.assert_invariants().await;
    assert_eq!(entry(&task, "undo_resolved").await.details["as"], "undone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skipped_undo_leaves_its_effect_and_the_task_says_so() {
    let task = half_undone().await;
    operator::resolve(
        &task.engine,
        task.id,
        resolution(Some("pay"), SettledAs::Skipped, None),
    )
    .await
    .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    assert!(task.record().await.task.residue);
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_last_open_undo_is_settled_the_task_ends_at_once() {
    let harness = Harness::embedded(only::<Errand>())
        .fail_at("deliver")
        .fault(Fault::at("note", FaultKind::FailAfter).in_undo());
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::CompensationFailed);
    let answer = operator::resolve(
        &task.engine,
        task.id,
        resolution(Some("note"), SettledAs::Undone, None),
    )
    .await
    .expect("accepted");
    assert_eq!(answer.status, TaskStatus::Failed);
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_stays_parked_until_every_failed_undo_is_settled() {
    let fails = |step| Fault::at(step, FaultKind::FailAfter).in_undo();
    let harness = Harness::embedded(only::<Stubborn>())
        .fault(Fault::at("four", FaultKind::FailBefore))
        .fault(fails("three"))
        .fault(fails("one"));
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::CompensationFailed);
    let answer = operator::resolve(
        &task.engine,
        task.id,
        resolution(Some("three"), SettledAs::Undone, None),
    )
    .await
    .expect("accepted");
    assert_eq!(
        (answer.status, answer.open_steps),
        (TaskStatus::CompensationFailed, vec!["one".to_owned()])
    );
    let answer = operator::resolve(
        &task.engine,
        task.id,
        resolution(Some("one"), SettledAs::Undone, None),
    )
    .await
    .expect("accepted");
    assert_eq!(
        (answer.status, answer.open_steps.len()),
        (TaskStatus::Failed, 0)
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_are_told_of_a_task_that_its_undo_parks_under_one_name() {
    let task = half_undone().await;
    let task_type = task
        .engine
        .registry
        .of(&*task.record().await.task)
        .expect("its type");
    let mut record = task.record().await;
    record.task.status = TaskStatus::Compensating;
    let mut draft = Draft::new(task_type.decl, record, "worker:1");
    draft.finish_undo().expect("an undo has given up");
    let (_, transition, _) = draft.finish(task.engine.new_change_id(), As::Owner);
    let told = events_of(task_type.decl, &transition);
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].event.as_str(), told[0].status.to),
        (COMPENSATION_FAILED, TaskStatus::CompensationFailed)
    );
    assert_eq!(
        transition.audit[0].event, "undo_gave_up",
        "the audit says what happened"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_task_is_resolved_and_says_what_is_left_of_it() {
    for (settled, residue) in [
        (SettledAs::Done, false),
        (SettledAs::Undone, false),
        (SettledAs::Skipped, true),
    ] {
        let task = half_undone().await;
        let answer = operator::resolve(&task.engine, task.id, resolution(None, settled, None))
            .await
            .expect("accepted");
        assert_eq!(answer.status, TaskStatus::Resolved);
        let record = task.record().await;
        assert_eq!(record.task.residue, residue, "{settled:?}");
        assert_eq!(record.steps[2].status, StepStatus::Resolved);
        assert!(record.task.finished_at.is_some());
        task.assert_invariants().await;

        let task = dead_letter().await;
        operator::resolve(&task.engine, task.id, resolution(None, settled, None))
            .await
            .expect("accepted");
        let record = task.record().await;
        assert_eq!(
            (record.task.status, record.task.residue),
            (TaskStatus::Resolved, residue),
            "{settled:?}"
        );
        task.assert_invariants().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redriven_dead_letter_runs_on_with_its_time_and_retries_anew() {
    let fault = Fault::at("one", FaultKind::FailBefore).on_attempt(1);
    let task = Harness::embedded(only::<Hasty>())
        .fault(fault)
        .submit(Form::new())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
    // Its type gives it a few seconds from its submission, which are over.
    task.clock.advance("4s");
    until(&task, |record| {
        record
            .task
            .deadline_at
            .expect("a deadline")
            .after(record.now)
            .is_zero()
    })
    .await;
    let answer = operator::retry(&task.engine, task.id, retrial(None))
        .await
        .expect("accepted");
    assert_eq!(answer.status, TaskStatus::Dispatched);
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("one failed, dead_lettered, one redriven, one ok, two ok, completed")
        .await;
    assert_eq!(task.record().await.task.failure, None);
    assert_eq!(
        entry(&task, "operator_redrove").await.details["failure"]["step"],
        "one"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_undone_on_request() {
    let task = dead_letter().await;
    let answer = operator::retry(&task.engine, task.id, retrial(Some(Direction::Undo)))
        .await
        .expect("accepted");
    assert_eq!(answer.will_undo, ["three", "two", "one"]);
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_trail(
        "one ok, two ok, three failed, dead_lettered, three undone, two undone, one undone, failed",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supplied_output_must_fit_and_then_the_task_goes_on_with_it() {
    let task = dead_letter().await;
    let wrong = resolution(
        Some("three"),
        SettledAs::Done,
        Some(json!({"not": "a text"})),
    );
    let refused = operator::resolve(&task.engine, task.id, wrong)
        .await
        .expect_err("no text");
    assert!(matches!(refused, OperatorError::Output(_)), "{refused:?}");
    let most = task.engine.settings.output_limit.0;
    let large = json!("a".repeat(most - 1));
    let large = resolution(Some("three"), SettledAs::Done, Some(large));
    let refused = operator::resolve(&task.engine, task.id, large).await;
    assert!(
        matches!(&refused, Err(OperatorError::Output(error)) if error.to_string().contains("`output_limit`")),
        "{refused:?}"
    );
    assert_eq!(task.record().await.task.status, TaskStatus::DeadLettered);
    let right = resolution(Some("three"), SettledAs::Done, Some(json!("by hand")));
    operator::resolve(&task.engine, task.id, right)
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let record = task.record().await;
    assert_eq!(record.steps[2].output, Some(json!("by hand")));
    task.assert_invariants().await;
    assert_eq!(entry(&task, "step_supplied").await.actor, "operator:kim");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_decided_is_refused_with_a_reason() {
    let task = half_undone().await;
    let forward = operator::retry(&task.engine, task.id, retrial(Some(Direction::Forward)))
        .await
        .expect_err("backward only");
    assert!(
        matches!(forward, OperatorError::NoWayForward),
        "{forward:?}"
    );
    for (step, settled) in [("pay", SettledAs::Done), ("note", SettledAs::Undone)] {
        let refused =
            operator::resolve(&task.engine, task.id, resolution(Some(step), settled, None))
                .await
                .expect_err(step);
        assert!(
            matches!(refused, OperatorError::NotSettleable(_)),
            "{refused:?}"
        );
    }
    let unknown = operator::resolve(
        &task.engine,
        task.id,
        resolution(Some("x"), SettledAs::Undone, None),
    )
    .await
    .expect_err("x");
    assert!(
        matches!(unknown, OperatorError::NoSuchStep(_)),
        "{unknown:?}"
    );

    let task = dead_letter().await;
    let refused = operator::resolve(
        &task.engine,
        task.id,
        resolution(Some("three"), SettledAs::Undone, None),
    )
    .await
    .expect_err("no");
    assert!(
        matches!(refused, OperatorError::NotSettleable(_)),
        "{refused:?}"
    );
    let refused = operator::resolve(
        &task.engine,
        task.id,
        resolution(Some("one"), SettledAs::Done, Some(json!(1))),
    )
    .await;
    assert!(
        matches!(refused, Err(OperatorError::NotSettleable(_))),
        "{refused:?}"
    );

    let task = Harness::embedded(only::<Errand>())
        .submit(Form::new())
        .await;
    let live = operator::retry(&task.engine, task.id, retrial(None))
        .await
        .expect_err("it is not parked");
    assert!(matches!(live, OperatorError::NotParked(_)), "{live:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_of_a_parked_task_is_what_its_retry_then_does() {
    let task = half_undone().await;
    let task_type = task
        .engine
        .registry
        .of(&*task.record().await.task)
        .expect("its type");
    let plan = undo_plan(&task_type, &task.record().await);
    let planned: Vec<_> = plan
        .stages
        .iter()
        .flat_map(|stage| &stage.steps)
        .map(|step| step.step.as_str())
        .collect();
    assert_eq!(planned, ["pay", "note"]);
    assert_eq!(plan.stages[0].group.as_deref(), Some("errand"));
    assert!(plan.stages[0].steps[0].gave_up);
    let left: Vec<_> = plan
        .not_undone
        .iter()
        .map(|left| left.step.as_str())
        .collect();
    assert_eq!(left, ["deliver", "pick"], "they have been undone");
    let why = why(&task.engine.registry, &task.record().await);
    assert_eq!(why.because[0].steps, ["pay"]);
    assert!(
        why.because[0]
            .detail
            .contains("planted: fails after its work"),
        "{why:?}"
    );
    assert!(
        why.operator_can
            .iter()
            .any(|can| can.path.ends_with("/retry")),
        "{why:?}"
    );
}

const AGAIN: RetryPolicy = RetryPolicy::constant("10ms").max_retries(1);

#[derive(Debug, Serialize, Deserialize)]
struct Parcel {}

/// Calls of a service that cannot be reached, with a step before and behind them.
struct Delivery;

#[distributed_task(name = "Delivery", queue = "deliveries")]
impl Delivery {
    type Request = Parcel;
    type Response = u32;

    #[step(1, host = "worker", undo = unpack)]
    async fn pack(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    async fn unpack(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", retry = AGAIN, undo = recall, on_exhausted = "dead_letter")]
    fn send(_parcel: &Parcel) -> HttpCall<u32> {
        HttpCall::post("carrier", "/parcels")
    }

    async fn recall(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(
        3,
        host = "worker",
        retry = AGAIN,
        no_undo = "a person reads it",
        on_exhausted = "dead_letter"
    )]
    fn announce(_parcel: &Parcel) -> HttpCall<u32> {
        HttpCall::post("carrier", "/notices")
    }

    #[step(4, host = "worker", undo = unbook)]
    async fn book(_ctx: &StepContext) -> StepResult<u32> {
        Err(StepError::permanent("the books are closed"))
    }

    async fn unbook(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    fn respond(book: &u32) -> u32 {
        *book
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_supplies_is_undone_where_its_step_stands_in_the_order() {
    let unreachable = |_: &ServiceRequest| Err(ServiceError::NotSent("refused".to_owned()));
    let task = Harness::embedded(only::<Delivery>())
        .service("carrier", unreachable)
        .submit(Form::new())
        .await;
    for step in ["send", "announce"] {
        assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
        let by_hand = resolution(Some(step), SettledAs::Done, Some(json!(7)));
        operator::resolve(&task.engine, task.id, by_hand)
            .await
            .expect("accepted");
    }
    let record = task.record().await;
    let task_type = task.engine.registry.of(&*record.task).expect("its type");
    let planned = undo_plan(&task_type, &record);
    let stages: Vec<_> = planned
        .stages
        .iter()
        .flat_map(|stage| stage.steps.iter().map(|step| step.step.clone()))
        .collect();
    assert_eq!(stages, ["send", "pack"]);
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_trail(
        "pack ok, send retries, send failed, dead_lettered, send supplied, announce retries, announce failed, \
         dead_lettered, announce supplied, \
         book failed, book undone, announce waived, send undone, pack undone, failed",
    )
    .await;
}
