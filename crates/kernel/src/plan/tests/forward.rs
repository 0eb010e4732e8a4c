//! Which forward step is next, and when none is.

use super::cases::{HOLD, broken, duration, later, start, step, step_is, table, task};
use crate::cancel::CancelReason;
use crate::error::StepError;
use crate::plan::{Decision, WaitStep};
use crate::record::Failure;
use crate::waits::Wait;
use counterstep_contracts::StepStatus::{
    Completed, Failed, InDoubt, Pending, Running, Skipped, Waiting,
};
use counterstep_contracts::{Direction, Host, OnExhausted, TaskStatus, WaitReason};
use serde_json::{Value, json};

fn failure(step: &str, class: &str, message: &str) -> Failure {
    Failure {
        step: Some(step.to_owned()),
        class: class.to_owned(),
        message: message.to_owned(),
        side: Some(Direction::Forward),
        ..Failure::default()
    }
}

fn sleeps(reason: WaitReason, left: &str) -> Decision {
    Decision::Sleep {
        reason,
        left: duration(left),
        details: Value::Null,
    }
}

#[test]
fn the_next_stage() {
    let done = || step_is("done", Completed);
    table(vec![
        ("the first step", task([step("a"), step("b")]), start([0])),
        ("the one after it", task([done(), step("b")]), start([1])),
        (
            "past a step that was skipped",
            task([done(), step_is("b", Skipped), step("c")]),
            start([2]),
        ),
        (
            "all of a group",
            task([done(), step("b").group(), step("c").group(), step("d")]),
            start([1, 2]),
        ),
        (
            "what is left of a group, beside a sibling that runs",
            task([step_is("a", Running).group(), step("b").group()]),
            start([1]),
        ),
        (
            "a step whose last attempt is in doubt runs again",
            task([done(), step_is("b", InDoubt)]),
            start([1]),
        ),
        (
            "nothing while a step runs",
            task([step_is("a", Running), step("b")]),
            HOLD,
        ),
        ("all steps are done", task([done()]), Decision::Complete),
        (
            "a step of another kind of host",
            task([done(), step("b").on(Host::Api)]),
            Decision::HandOver(Host::Api, "the next step runs there"),
        ),
        (
            "a task at rest",
            task([done()]).is(TaskStatus::Completed),
            Decision::Rest,
        ),
    ]);
}

#[test]
fn retries_that_are_not_due() {
    let waits = |due| step_is("a", Waiting).due(due);
    table(vec![
        ("a retry is due", task([waits(later("0s"))]), start([0])),
        (
            "a short delay is waited out",
            task([waits(later("999ms"))]),
            HOLD,
        ),
        (
            "a long one is slept through",
            task([waits(later("1s"))]),
            sleeps(WaitReason::Retry, "1s"),
        ),
        (
            "until the first of a group is due",
            task([
                waits(later("9s")).group(),
                step_is("b", Waiting).group().due(later("5s")),
            ]),
            sleeps(WaitReason::Retry, "5s"),
        ),
        (
            "beside a sibling that runs there is no sleep",
            task([waits(later("9s")).group(), step_is("b", Running).group()]),
            HOLD,
        ),
        (
            "a process that shuts down waits for nothing",
            task([waits(later("999ms"))]).interrupted(CancelReason::Shutdown),
            Decision::HandOver(Host::Worker, "its process shut down"),
        ),
        (
            "a turn that was told to stop commits what it sees",
            task([waits(later("999ms"))]).interrupted(CancelReason::Requested),
            sleeps(WaitReason::Retry, "999ms"),
        ),
    ]);
}

#[test]
fn conditions() {
    let conditional = || step("b").conditional();
    let two = || {
        task([
            step_is("a", Completed),
            conditional().group(),
            step("c").group().conditional(),
        ])
    };
    table(vec![
        (
            "are asked for the whole stage",
            two(),
            Decision::AskConditions(vec![1, 2]),
        ),
        (
            "are not asked ahead of time",
            task([step("a"), conditional()]),
            start([0]),
        ),
        (
            "one that does not hold",
            two().condition(1, Ok(true)).condition(2, Ok(false)),
            Decision::Skip(2),
        ),
        (
            "one that fails ends the task",
            two().condition(1, Err(broken())).condition(2, Ok(false)),
            Decision::GiveUp(failure("b", "permanent", "broken"), OnExhausted::Compensate),
        ),
        (
            "both hold",
            two().condition(1, Ok(true)).condition(2, Ok(true)),
            start([1, 2]),
        ),
        (
            "a step that has started is not asked again",
            task([conditional().is(InDoubt)]),
            start([0]),
        ),
    ]);
}

#[test]
fn waits() {
    let timer = || step("nap").timer();
    let answer = || step("answer").signal(false);
    let one = |step: WaitStep| Decision::Wait(vec![(0, step)]);
    let failed = |message: &str, falls_back| WaitStep::Failed {
        error: (&StepError::permanent(message)).into(),
        falls_back,
    };
    let second = Ok(Wait::For(duration("2s")));
    table(vec![
        (
            "its function says how long",
            task([timer()]),
            Decision::AskWaits(vec![0]),
        ),
        (
            "it begins",
            task([timer()]).wait(0, second.clone()),
            one(WaitStep::Begins(later("2s"))),
        ),
        (
            "while it lasts the task sleeps",
            task([timer().is(Waiting).due(later("2s"))]),
            sleeps(WaitReason::Timer, "2s"),
        ),
        (
            "it is over",
            task([timer().is(Waiting).due(later("0s"))]).wait(0, second.clone()),
            one(WaitStep::Over(
                json!({"due_at": "1970-01-01T00:16:40.000000Z"}),
            )),
        ),
        (
            "a signal that came counts, without its function",
            task([answer().is(Waiting).due(later("9s")).signalled(json!(7))]),
            one(WaitStep::Over(json!(7))),
        ),
        (
            "a signal that did not come",
            task([answer().is(Waiting).due(later("0s"))])
                .wait(0, Ok(Wait::Signal(duration("72h")))),
            one(failed("no signal came within 3d", false)),
        ),
        (
            "without it the fallback runs",
            task([answer().with_fallback().is(Waiting).due(later("0s"))])
                .wait(0, Ok(Wait::Signal(duration("72h")))),
            one(failed("no signal came within 3d", true)),
        ),
        (
            "an optional one is nothing then",
            task([step("answer").signal(true).is(Waiting).due(later("0s"))])
                .wait(0, Ok(Wait::Signal(duration("72h")))),
            one(WaitStep::Over(Value::Null)),
        ),
        (
            "its function fails",
            task([timer()]).wait(0, Err(broken())),
            one(failed("broken", false)),
        ),
        (
            "of two that fail in one decision the second does not fall back",
            task([timer().group(), step("b").timer().group().with_fallback()])
                .wait(0, Err(broken()))
                .wait(1, Err(broken())),
            Decision::Wait(vec![
                (0, failed("broken", false)),
                (1, failed("broken", false)),
            ]),
        ),
        (
            "the fallback of a wait runs code",
            task([answer().in_fallback().is(Waiting).due(later("0s"))]),
            start([0]),
        ),
    ]);
}

#[test]
fn reasons_to_give_up() {
    let failed = |error: &StepError| step_is("a", Failed).error(error);
    let deadline = Failure {
        step: None,
        class: "deadline".to_owned(),
        message: "the task ran into its deadline, counted from its submission".to_owned(),
        side: Some(Direction::Forward),
        ..Failure::default()
    };
    table(vec![
        (
            "a step failed",
            task([failed(&broken())]),
            Decision::GiveUp(failure("a", "permanent", "broken"), OnExhausted::Compensate),
        ),
        (
            "with the policy of the step",
            task([failed(&broken()).on_exhausted(OnExhausted::DeadLetter)]),
            Decision::GiveUp(failure("a", "permanent", "broken"), OnExhausted::DeadLetter),
        ),
        (
            "the sibling that it cancelled is not the reason",
            task([
                failed(&StepError::cancelled()).group(),
                step_is("b", Failed)
                    .group()
                    .error(&StepError::transient("busy")),
            ]),
            Decision::GiveUp(failure("b", "transient", "busy"), OnExhausted::Compensate),
        ),
        (
            "not before the siblings have ended",
            task([failed(&broken()).group(), step_is("b", Running).group()]),
            HOLD,
        ),
        (
            "and none of them starts beside one that failed",
            task([
                failed(&broken()).group(),
                step_is("b", Running).group(),
                step("c").group(),
            ]),
            HOLD,
        ),
        (
            "the deadline has come",
            task([step("a")]).deadline(later("0s")),
            Decision::GiveUp(deadline, OnExhausted::Compensate),
        ),
        (
            "the deadline is near",
            task([step("a")]).deadline(later("1ms")),
            start([0]),
        ),
    ]);
}

#[test]
fn cancels_and_shutdowns() {
    table(vec![
        (
            "a cancel stops the task",
            task([step_is("a", Completed), step("b")]).cancelled(),
            Decision::Stop,
        ),
        (
            "also where a step has failed",
            task([step_is("a", Failed)]).cancelled(),
            Decision::Stop,
        ),
        (
            "once the running steps have stopped",
            task([step_is("a", Running).group(), step("b").group()]).cancelled(),
            HOLD,
        ),
        (
            "no step starts in a process that shuts down",
            task([step("a")]).stopping(),
            Decision::HandOver(Host::Worker, "its process shut down"),
        ),
        (
            "also while those that run may go on",
            task([step("a")]).draining(),
            Decision::HandOver(Host::Worker, "its process shut down"),
        ),
        (
            "a sibling of one that runs waits for it",
            task([step_is("a", Running).group(), step("b").group()]).draining(),
            HOLD,
        ),
        (
            "and the task completes where nothing is left",
            task([step_is("a", Completed)]).draining(),
            Decision::Complete,
        ),
        (
            "also not beside one that runs",
            task([step_is("a", Running).group(), step("b").group()]).stopping(),
            HOLD,
        ),
        (
            "a step of another host goes there",
            task([step("a").on(Host::Api)]).stopping(),
            Decision::HandOver(Host::Api, "the next step runs there"),
        ),
        (
            "a finished task completes all the same",
            task([step_is("a", Completed)]).stopping(),
            Decision::Complete,
        ),
        (
            "pending steps of a cancelled task that waits",
            task([
                step_is("a", Waiting).due(later("9s")),
                step_is("b", Pending),
            ])
            .cancelled(),
            Decision::Stop,
        ),
    ]);
}
