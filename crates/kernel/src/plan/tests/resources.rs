//! What a step may lack: scratch files, a breaker's permit, room, and knowledge of its last
//! attempt.

use super::cases::{HOLD, duration, later, start, step, step_is, table, task};
use crate::cancel::CancelReason;
use crate::plan::Decision;
use crate::record::Failure;
use crate::task::Probe;
use counterstep_contracts::StepStatus::{Completed, InDoubt, Running, Skipped, Waiting};
use counterstep_contracts::{Direction, Host, OnExhausted, WaitReason};
use serde_json::{Value, json};

const HOLD_FOR_ROOM: Decision = Decision::Hold { wants_room: true };

fn leave_for_room() -> Decision {
    Decision::HandOver(
        Host::Worker,
        "its next step is heavy, and this process runs as many as it may",
    )
}

#[test]
fn lost_scratch() {
    let make = || step_is("make", Completed).made_scratch();
    let read = || step("read").reads("make");
    let read_before = || step_is("read before", Completed).reads("make");
    table(vec![
        ("is there", task([make(), read()]), start([1])),
        (
            "is there, and the process shuts down",
            task([make(), read()]).draining(),
            start([1]),
        ),
        (
            "and its steps have no more time",
            task([make(), read()]).draining().stopping(),
            Decision::HandOver(Host::Worker, "its process shut down"),
        ),
        (
            "is lost, and the process shuts down",
            task([make(), read()]).lost(0).draining(),
            Decision::HandOver(Host::Worker, "its process shut down"),
        ),
        (
            "is lost, and no step has read it",
            task([make(), read()]).lost(0),
            Decision::ScratchLost(0),
        ),
        (
            "is lost, and a completed step has read it",
            task([make(), read_before(), read()]).lost(0),
            Decision::Rebuild(0),
        ),
        (
            "is lost, and a step was skipped by it",
            task([
                make(),
                step_is("skipped", Skipped).conditional_on("make"),
                read(),
            ])
            .lost(0),
            Decision::Rebuild(0),
        ),
        (
            "is lost, and a step that has run was not skipped by it",
            task([
                make(),
                step_is("ran", Completed).conditional_on("make"),
                read(),
            ])
            .lost(0),
            Decision::Rebuild(0),
        ),
        (
            "is lost, and the step that reads it has a condition that reads it, too",
            task([make(), read().conditional_on("make")])
                .condition(1, Ok(true))
                .lost(0),
            Decision::ScratchLost(0),
        ),
        (
            "is lost, and a wait beside its reader has begun by it",
            task([
                make(),
                step_is("rest", Waiting)
                    .timer()
                    .reads("make")
                    .group()
                    .due(later("1h")),
                read().group(),
            ])
            .lost(0),
            Decision::Rebuild(0),
        ),
        (
            "is lost, and no step of the stage reads it",
            task([make(), step("b")]).lost(0),
            start([1]),
        ),
        (
            "what it was made of is lost as well",
            task([
                make(),
                step_is("refine", Completed).made_scratch().reads("make"),
                step("read").reads("refine"),
            ])
            .lost(0)
            .lost(1),
            Decision::Rebuild(0),
        ),
        (
            "siblings end first",
            task([
                make(),
                step_is("b", Running).group(),
                step("read").reads("make").group(),
            ])
            .lost(0),
            HOLD,
        ),
        (
            "is being made again",
            task([make().rebuilding(), read_before(), read()]).lost(0),
            HOLD,
        ),
        (
            "the next attempt to make it is near",
            task([make(), read_before(), read()])
                .lost(0)
                .rebuild_delayed(0, "999ms"),
            HOLD,
        ),
        (
            "whatever its breaker says",
            task([make(), read_before(), read()])
                .lost(0)
                .held_back(0, "5s")
                .held_back(2, "5s")
                .rebuild_delayed(0, "30s"),
            Decision::Sleep {
                reason: WaitReason::Retry,
                left: duration("30s"),
                details: Value::Null,
            },
        ),
        (
            "and in a process that shuts down",
            task([make(), read_before(), read()])
                .lost(0)
                .rebuild_delayed(0, "999ms")
                .stopping(),
            Decision::HandOver(Host::Worker, "its process shut down"),
        ),
        (
            "the next attempt to make it is far",
            task([make(), read_before(), read()])
                .lost(0)
                .rebuild_delayed(0, "1s"),
            Decision::Sleep {
                reason: WaitReason::Retry,
                left: duration("1s"),
                details: Value::Null,
            },
        ),
    ]);
}

#[test]
fn scratch_of_another_kind_of_host() {
    let case = task([
        step_is("make", Completed).made_scratch().on(Host::Api),
        step("read").reads("make"),
    ]);
    let Decision::GiveUp(failure, OnExhausted::Compensate) = case.decision() else {
        panic!("{:?}", case.decision());
    };
    assert_eq!(failure.step.as_deref(), Some("read"));
    assert!(
        failure
            .message
            .contains("`make`, which runs on another kind of host"),
        "{}",
        failure.message
    );
}

#[test]
fn breakers() {
    let sleeps = |step: &str, at: usize, left: &str| Decision::Sleep {
        reason: WaitReason::Breaker,
        left: duration(left),
        details: json!({"breaker": format!("breaker {at}"), "step": step}),
    };
    let pair = || task([step("a").group(), step("b").group()]);
    table(vec![
        (
            "one that is open",
            task([step("a")]).held_back(0, "5s"),
            sleeps("a", 0, "5s"),
        ),
        (
            "of a group, the steps without one start",
            pair().held_back(0, "5s"),
            start([1]),
        ),
        (
            "of a group, until the first may be let through",
            pair().held_back(0, "5s").held_back(1, "3s"),
            sleeps("b", 1, "3s"),
        ),
        (
            "but no longer than a sibling waits",
            task([
                step("a").group(),
                step_is("b", Waiting).group().due(later("2s")),
            ])
            .held_back(0, "5s"),
            sleeps("a", 0, "2s"),
        ),
        (
            "beside a sibling that runs there is no sleep",
            task([step("a").group(), step_is("b", Running).group()]).held_back(0, "5s"),
            HOLD,
        ),
        (
            "of a step whose scratch is lost",
            task([
                step_is("make", Completed).made_scratch(),
                step("read").reads("make"),
            ])
            .lost(0)
            .held_back(0, "5s"),
            sleeps("make", 0, "5s"),
        ),
    ]);
}

#[test]
fn heavy_steps() {
    let heavy = |name| step(name).heavy().group();
    let pair = || task([heavy("a"), heavy("b")]);
    let reader = || {
        task([
            step_is("make", Completed).made_scratch(),
            step("read").reads("make").heavy(),
        ])
    };
    let started = |steps: &[usize], wants_room| Decision::Start {
        steps: steps.to_vec(),
        wants_room,
    };
    table(vec![
        ("room is asked for", pair(), Decision::AskRoom(2)),
        ("all have room", pair().room(2), started(&[0, 1], false)),
        ("one has room", pair().room(1), started(&[0], true)),
        ("none has room", pair().room(0), leave_for_room()),
        (
            "a light one of the stage starts without",
            task([heavy("a"), step("b").group(), step_is("c", Running).group()]).room(0),
            started(&[1], true),
        ),
        (
            "beside one that runs it is waited for",
            task([heavy("a"), step_is("c", Running).group()]).room(0),
            HOLD_FOR_ROOM,
        ),
        (
            "a reader of local files waits here",
            reader().room(0),
            HOLD_FOR_ROOM,
        ),
        (
            "but not where abandoned code has all the room",
            reader().stuck(),
            leave_for_room(),
        ),
        (
            "and not in a turn that was told to stop",
            reader().room(0).interrupted(CancelReason::Sibling),
            leave_for_room(),
        ),
        (
            "a heavy step that makes its scratch again",
            task([
                step_is("make", Completed).made_scratch().heavy(),
                step_is("before", Completed).reads("make"),
                step("read").reads("make"),
            ])
            .lost(0),
            Decision::AskRoom(1),
        ),
    ]);
}

#[test]
fn attempts_in_doubt() {
    let doubtful = || task([step_is("a", InDoubt).probed()]);
    table(vec![
        ("are probed", doubtful(), Decision::Probe(vec![0])),
        ("are being probed", doubtful().asking(0), HOLD),
        (
            "were done",
            doubtful().found(0, Probe::Done(json!(1))),
            Decision::SettleDone(vec![0]),
        ),
        (
            "did nothing",
            doubtful().found(0, Probe::NothingHappened),
            start([0]),
        ),
        (
            "are unknown",
            doubtful().found(0, Probe::Unknown),
            start([0]),
        ),
        (
            "an answer about an earlier attempt is none",
            doubtful().found(0, Probe::NothingHappened).attempt(0, 2),
            Decision::Probe(vec![0]),
        ),
        (
            "whose probe is tried again later",
            doubtful().probe_failed(0, Some("5s")),
            Decision::Sleep {
                reason: WaitReason::Retry,
                left: duration("5s"),
                details: Value::Null,
            },
        ),
        (
            "whose probe is tried again soon",
            doubtful().probe_failed(0, Some("10ms")),
            HOLD,
        ),
        (
            "whose probe gave up",
            doubtful().probe_failed(0, None),
            Decision::GiveUp(
                Failure {
                    step: Some("a".to_owned()),
                    class: "in_doubt".to_owned(),
                    message: "its probe gave up".to_owned(),
                    side: Some(Direction::Forward),
                    ..Failure::default()
                },
                OnExhausted::DeadLetter,
            ),
        ),
        (
            "of which one was found done beside one whose probe gave up",
            task([
                step_is("a", InDoubt).probed().group(),
                step_is("b", InDoubt).probed().group(),
            ])
            .probe_failed(0, None)
            .found(1, Probe::Done(json!(1))),
            Decision::SettleDone(vec![1]),
        ),
        ("have no probe", task([step_is("a", InDoubt)]), start([0])),
    ]);
}
