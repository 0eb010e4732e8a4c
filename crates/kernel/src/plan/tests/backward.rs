//! Which undo is next, and when none is.

use super::cases::{HOLD, duration, step, step_is, table, undone};
use crate::plan::{Decision, undo_order, waived_now};
use crate::task::Probe;
use counterstep_contracts::StepStatus::{
    Compensated, Compensating, CompensationFailed, Completed, Failed, InDoubt, Pending,
};
use counterstep_contracts::{Host, UndoDecl};
use serde_json::json;

fn rests(left: &str) -> Decision {
    Decision::RestInUndo {
        left: duration(left),
        why: "the next attempt of an undo is due later",
    }
}

#[test]
fn the_next_undo() {
    let done = |name| step_is(name, Completed);
    table(vec![
        (
            "the latest step first",
            undone([done("a"), done("b")]),
            Decision::Undo(vec![1]),
        ),
        (
            "a step that failed, too",
            undone([done("a"), step_is("b", Failed)]),
            Decision::Undo(vec![1]),
        ),
        (
            "not one that never started",
            undone([done("a"), step_is("b", Pending)]),
            Decision::Undo(vec![0]),
        ),
        (
            "all of a group, the latest first",
            undone([done("a"), done("b").group(), done("c").group()]),
            Decision::Undo(vec![2, 1]),
        ),
        (
            "what of a group is not under way",
            undone([done("a").group(), step_is("b", Compensating).group()]),
            Decision::Undo(vec![0]),
        ),
        (
            "none before the later stage is undone",
            undone([done("a"), step_is("b", Compensating)]),
            HOLD,
        ),
        (
            "past a pure step",
            undone([done("a"), done("b").undo(UndoDecl::Pure)]),
            Decision::Undo(vec![0]),
        ),
        (
            "past a waived one",
            undone([
                done("a"),
                done("b").undo(UndoDecl::Waived { reason: "mail" }),
            ]),
            Decision::Undo(vec![0]),
        ),
        (
            "all are undone",
            undone([step_is("a", Compensated), step("b")]),
            Decision::FinishUndo,
        ),
        (
            "a process that shuts down starts none",
            undone([done("a")]).stopping(),
            Decision::HandOver(Host::Worker, "its process shut down"),
        ),
        (
            "also while those under way may go on",
            undone([done("a")]).draining(),
            Decision::HandOver(Host::Worker, "its process shut down"),
        ),
        (
            "and waits for what is under way",
            undone([done("a").group(), step_is("b", Compensating).group()]).stopping(),
            HOLD,
        ),
        (
            "another host's step is undone here",
            undone([done("a").on(Host::Api)]),
            Decision::Undo(vec![0]),
        ),
        (
            "a cancel changes nothing",
            undone([done("a")]).cancelled(),
            Decision::Undo(vec![0]),
        ),
    ]);
}

#[test]
fn undos_that_failed() {
    let done = |name| step_is(name, Completed);
    let failed = || step_is("b", CompensationFailed);
    let waits = |name| step_is(name, Compensating).at_rest();
    table(vec![
        (
            "one that gave up is a barrier",
            undone([done("a"), failed()]),
            Decision::FinishUndo,
        ),
        (
            "unless the type goes on",
            undone([done("a"), failed()]).going_on(),
            Decision::Undo(vec![0]),
        ),
        (
            "a sibling that is under way is waited for",
            undone([step_is("a", Compensating).group(), failed().group()]),
            HOLD,
        ),
        (
            "a sibling that waits for its next attempt is not",
            undone([waits("a").group(), failed().group()]).undo_delayed(0, "60s"),
            Decision::FinishUndo,
        ),
        (
            "the next attempt is due",
            undone([waits("a")]),
            Decision::Undo(vec![0]),
        ),
        (
            "the next attempt is near",
            undone([waits("a")]).undo_delayed(0, "999ms"),
            HOLD,
        ),
        (
            "the next attempt is far",
            undone([waits("a")]).undo_delayed(0, "1s"),
            rests("1s"),
        ),
        (
            "the nearest of a group counts",
            undone([waits("a").group(), waits("b").group()])
                .undo_delayed(0, "2s")
                .undo_delayed(1, "24h"),
            rests("2s"),
        ),
        (
            "one of a group that is near is waited for",
            undone([waits("a").group(), waits("b").group()])
                .undo_delayed(0, "100ms")
                .undo_delayed(1, "5s"),
            HOLD,
        ),
        (
            "beside one that is under way there is no rest",
            undone([waits("a").group(), step_is("b", Compensating).group()]).undo_delayed(0, "5s"),
            HOLD,
        ),
        (
            "a process that shuts down waits for no delay",
            undone([waits("a")]).undo_delayed(0, "999ms").stopping(),
            Decision::HandOver(Host::Worker, "its process shut down"),
        ),
    ]);
}

#[test]
fn attempts_in_doubt() {
    let doubtful = || undone([step_is("a", InDoubt).probed()]);
    table(vec![
        ("are probed", doubtful(), Decision::Probe(vec![0])),
        ("are being probed", doubtful().asking(0), HOLD),
        (
            "did nothing",
            doubtful().found(0, Probe::NothingHappened),
            Decision::SettleNotDone(vec![0]),
        ),
        (
            "were done",
            doubtful().found(0, Probe::Done(json!(1))),
            Decision::Undo(vec![0]),
        ),
        (
            "are unknown",
            doubtful().found(0, Probe::Unknown),
            Decision::Undo(vec![0]),
        ),
    ]);
}

/// The undo of a whole task is what the planner would decide one after the other.
#[test]
fn the_order_of_a_whole_undo() {
    let done = |name| step_is(name, Completed);
    let mut case = undone([
        done("a"),
        done("b").group(),
        done("c").group(),
        done("d").undo(UndoDecl::Pure),
        done("e"),
        step("f"),
    ]);
    let whole = undo_order(case.decl(), &case.record.steps);
    assert_eq!(whole, [4, 2, 1, 0]);
    let mut one_by_one = Vec::new();
    while let Decision::Undo(stage) = case.decision() {
        for at in stage {
            case.record.steps[at].status = Compensated;
            one_by_one.push(at);
        }
    }
    assert_eq!(one_by_one, whole);
    assert_eq!(case.decision(), Decision::FinishUndo);
}

/// Each is recorded once: neither before the undos of its stage are over, nor again behind that.
#[test]
fn a_waiver_is_recorded_when_the_way_back_has_left_its_stage() {
    let done = |name| step_is(name, Completed);
    let waived = |name| done(name).undo(UndoDecl::Waived { reason: "mail" });
    let mut case = undone([
        done("a"),
        waived("b").group(),
        done("c").group(),
        waived("d"),
    ]);
    let mut recorded = vec![waived_now(case.decl(), &case.record.steps)];
    while let Decision::Undo(stage) = case.decision() {
        for at in stage {
            case.record.steps[at].status = Compensated;
        }
        recorded.push(waived_now(case.decl(), &case.record.steps));
    }
    assert_eq!(recorded, [vec![3], vec![1], vec![]]);
}

/// Rows that do not match their declaration are read before they are found damaged.
#[test]
fn a_row_beyond_the_declaration_is_not_undone() {
    let mut case = undone([step_is("a", Completed)]);
    let extra = step_is("b", Completed).row;
    case.record.steps.push(extra);
    assert_eq!(undo_order(case.decl(), &case.record.steps), [0]);
}
