//! Steps that submit tasks: which are submitted, when the step is over, and how it is undone.

use super::cases::{HOLD, duration, later, step, step_is, table, task, undone};
use crate::builtin::{ChildRequest, Tasks, TasksShape};
use crate::error::{StepError, StepResult};
use crate::plan::{Decision, WaitStep};
use crate::record::StepFailure;
use crate::waits::{LONGEST_WAIT, Wait};
use counterstep_contracts::StepStatus::{
    Compensated, Compensating, Completed, Failed, Running, Waiting,
};
use counterstep_contracts::{UndoDecl, WaitReason};
use counterstep_steps::ChildOutcome;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn request(no: u32) -> ChildRequest {
    ChildRequest {
        of: "Child",
        version: 1,
        request: json!(no),
    }
}

/// A list of `listed` tasks, of which `need` have to complete.
pub(super) fn tasks(listed: u32, at_a_time: usize, need: usize) -> Tasks {
    Tasks {
        list: (0..listed).map(request).collect(),
        at_a_time,
        need,
        stops_early: false,
        within: duration("1h"),
        shape: TasksShape::Responses,
        fault: None,
    }
}

pub(super) fn wait(tasks: Tasks) -> StepResult<Wait> {
    Ok(Wait::Tasks(tasks))
}

/// Three tasks, two at a time, all of which have to complete.
pub(super) fn three() -> StepResult<Wait> {
    wait(tasks(3, 2, 3))
}

/// Three tasks at once, of which one is enough.
fn one_of_three() -> StepResult<Wait> {
    let any = Tasks {
        stops_early: true,
        shape: TasksShape::Outcomes,
        ..tasks(3, 3, 1)
    };
    wait(any)
}

pub(super) fn sleeps(left: &str) -> Decision {
    Decision::Sleep {
        reason: WaitReason::Children,
        left: duration(left),
        details: Value::Null,
    }
}

pub(super) fn one(step: WaitStep) -> Decision {
    Decision::Wait(vec![(0, step)])
}

fn submits(begins: bool, places: std::ops::Range<u32>) -> Decision {
    one(WaitStep::Submits {
        begins: begins.then(|| later("1h")),
        tasks: places.map(|no| (no, request(no))).collect(),
    })
}

pub(super) fn failed(message: &str) -> Decision {
    one(WaitStep::Failed {
        error: (&StepError::permanent(message)).into(),
        falls_back: false,
    })
}

fn unreadable(why: &str) -> Decision {
    one(WaitStep::Failed {
        error: StepFailure {
            class: "unreadable".to_owned(),
            message: format!("what its tasks have given cannot be read: {why}"),
            origin: None,
        },
        falls_back: false,
    })
}

fn rests(left: Duration) -> Decision {
    Decision::RestInUndo {
        left,
        why: "tasks that it has submitted are being undone",
    }
}

fn completed(response: Value) -> ChildOutcome<Value> {
    ChildOutcome::Completed(response)
}

#[test]
fn forward() {
    let fresh = || step("all").tasks();
    let waits = |started, seen| {
        step_is("all", Waiting)
            .tasks()
            .started(started, seen)
            .due(later("1h"))
    };
    table(vec![
        (
            "its function says which tasks",
            task([fresh()]),
            Decision::AskWaits(vec![0]),
        ),
        (
            "it begins with as many as may be under way",
            task([fresh()]).wait(0, three()),
            submits(true, 0..2),
        ),
        (
            "of no tasks it is over at once",
            task([fresh()]).wait(0, wait(tasks(0, 2, 0))),
            one(WaitStep::Over(json!([]))),
        ),
        (
            "while they run the task sleeps",
            task([waits(2, 0)]).wait(0, three()).children(0, 0, 0),
            sleeps("1h"),
        ),
        (
            "those that were submitted in this decision are not looked at",
            task([waits(2, 0)]).wait(0, three()),
            sleeps("1h"),
        ),
        (
            "what could not be looked at is looked at again soon",
            task([waits(2, 0)]).wait(0, three()).unseen(0),
            sleeps("5s"),
        ),
        (
            "also where their time is over by then",
            task([waits(2, 0).due(later("0s"))])
                .wait(0, three())
                .unseen(0),
            sleeps("5s"),
        ),
        (
            "a wait that an operator had begin anew has its time anew",
            task([step_is("all", Waiting).tasks().started(2, 0)]).wait(0, three()),
            one(WaitStep::Begins(later("1h"))),
        ),
        (
            "a list that became shorter than what was submitted",
            task([waits(4, 0)]).wait(0, three()).children(0, 3, 0),
            failed(
                "the step has submitted 4 tasks, and its function gives a list of 3 now; expected the same list each \
                 time it is asked",
            ),
        ),
        (
            "where one has ended the next is submitted",
            task([waits(2, 0)]).wait(0, three()).children(0, 1, 0),
            submits(false, 2..3),
        ),
        (
            "all have completed, and how they ended is not known yet",
            task([waits(3, 2)]).wait(0, three()).children(0, 3, 0),
            Decision::ReadChildren(0),
        ),
        (
            "all have completed",
            task([waits(3, 2)])
                .wait(0, three())
                .children(0, 3, 0)
                .ended(0, (0..3).map(|no| completed(json!(no))).collect()),
            one(WaitStep::Over(json!([0, 1, 2]))),
        ),
        (
            "one that did not complete fails the step, and no other is submitted",
            task([waits(2, 0)]).wait(0, three()).children(0, 0, 1),
            failed("1 of its 3 tasks did not complete"),
        ),
        (
            "where one may fail, the others go on",
            task([waits(2, 0)])
                .wait(0, wait(tasks(3, 2, 2)))
                .children(0, 0, 1),
            submits(false, 2..3),
        ),
        (
            "as long as enough can complete",
            task([waits(3, 1)])
                .wait(0, wait(tasks(3, 2, 2)))
                .children(0, 0, 2),
            failed("2 of its 3 tasks did not complete, and 2 have to"),
        ),
        (
            "enough have completed: the others stop",
            task([waits(3, 0)])
                .wait(0, one_of_three())
                .children(0, 1, 0),
            Decision::StopChildren(0),
        ),
        (
            "and are waited for",
            task([waits(3, 0)])
                .wait(0, one_of_three())
                .children(0, 1, 1)
                .stopped(0),
            sleeps("1h"),
        ),
        (
            "their time is over",
            task([waits(2, 0).due(later("0s"))])
                .wait(0, three())
                .children(0, 1, 0),
            failed("1 of 3 tasks had ended within 1h"),
        ),
        (
            "but for those that have completed by then",
            task([waits(3, 2).due(later("0s"))])
                .wait(0, three())
                .children(0, 3, 0),
            Decision::ReadChildren(0),
        ),
        (
            "of which enough may have completed: the others stop",
            task([waits(3, 0).due(later("0s"))])
                .wait(0, one_of_three())
                .children(0, 1, 0),
            Decision::StopChildren(0),
        ),
        (
            "and are waited for beyond that time, until one ends",
            task([waits(3, 0).due(later("0s"))])
                .wait(0, one_of_three())
                .children(0, 1, 1)
                .stopped(0),
            Decision::Sleep {
                reason: WaitReason::Children,
                left: LONGEST_WAIT,
                details: Value::Null,
            },
        ),
        (
            "or until what is beside them is due",
            task([
                waits(3, 0).due(later("0s")).group(),
                step_is("b", Waiting).group().due(later("9s")),
            ])
            .wait(0, one_of_three())
            .children(0, 1, 1)
            .stopped(0),
            sleeps("9s"),
        ),
        (
            "the reason is the tasks, also where a step beside them is due earlier",
            task([
                waits(2, 0).group(),
                step_is("b", Waiting).group().due(later("9s")),
            ])
            .wait(0, three())
            .children(0, 0, 0),
            sleeps("9s"),
        ),
        (
            "what its tasks have given cannot be read: they are looked at again soon",
            task([waits(3, 3)])
                .wait(0, three())
                .children(0, 3, 0)
                .unreadable(0, "damaged"),
            sleeps("5s"),
        ),
        (
            "for some hours",
            task([waits(3, 3).missed(24)])
                .wait(0, three())
                .children(0, 3, 0)
                .unreadable(0, "damaged"),
            unreadable("damaged"),
        ),
        (
            "or as long as the step may take",
            task([waits(3, 3).due(later("0s"))])
                .wait(0, three())
                .children(0, 3, 0)
                .unreadable(0, "damaged"),
            unreadable("damaged"),
        ),
        (
            "a database that does not answer is waited for beyond that",
            task([waits(3, 3).due(later("0s"))])
                .wait(0, three())
                .children(0, 3, 0)
                .unseen(0),
            sleeps("5s"),
        ),
        (
            "but not without end",
            task([waits(2, 0).missed(24)]).wait(0, three()).unseen(0),
            unreadable("the database did not answer"),
        ),
        (
            "one that did not complete fails the step also beside one that cannot be read",
            task([waits(3, 3)])
                .wait(0, three())
                .children(0, 2, 1)
                .unreadable(0, "damaged"),
            failed("1 of its 3 tasks did not complete"),
        ),
        (
            "beside a step that runs, the turn is held",
            task([waits(2, 0).group(), step_is("b", Running).group()])
                .wait(0, three())
                .children(0, 0, 0),
            HOLD,
        ),
    ]);
}

#[test]
fn backward() {
    let undoing = |started, seen| step_is("all", Compensating).tasks().started(started, seen);
    let rest = rests(LONGEST_WAIT);
    table(vec![
        (
            "its undo begins without an attempt",
            undone([step_is("all", Completed).tasks().started(3, 3)]),
            Decision::UndoChildren(0),
        ),
        (
            "of a step that failed, too",
            undone([step_is("all", Failed).tasks().started(3, 3)]),
            Decision::UndoChildren(0),
        ),
        (
            "its tasks are told",
            undone([undoing(3, 3)]).children(0, 2, 1),
            Decision::StopChildren(0),
        ),
        (
            "and are waited for",
            undone([undoing(3, 3)]).children(0, 0, 1).stopped(0),
            rest.clone(),
        ),
        (
            "one that completed after that is told again",
            undone([undoing(3, 3)]).children(0, 1, 2).stopped(0),
            Decision::StopChildren(0),
        ),
        (
            "where not all could be told, soon again",
            undone([undoing(3, 3)])
                .children(0, 0, 1)
                .stopped(0)
                .unseen(0),
            rests(duration("5s")),
        ),
        (
            "then later and later",
            undone([undoing(3, 3).missed(3)])
                .children(0, 1, 1)
                .stopped(0)
                .unseen(0),
            rests(duration("40s")),
        ),
        (
            "and at last a person is asked",
            undone([undoing(3, 3).missed(24)])
                .children(0, 1, 1)
                .stopped(0)
                .unseen(0),
            Decision::ChildrenNotUndone(0),
        ),
        (
            "all have ended",
            undone([undoing(3, 3)]).children(0, 0, 3),
            Decision::ChildrenUndone(0),
        ),
        (
            "a step that had submitted none",
            undone([step_is("all", Compensating).tasks().at_rest()]),
            Decision::ChildrenUndone(0),
        ),
        (
            "an earlier step waits for them",
            undone([step_is("a", Completed), undoing(3, 3)])
                .children(1, 0, 2)
                .stopped(1),
            rest,
        ),
        (
            "and is next once they are undone",
            undone([
                step_is("a", Completed),
                step_is("all", Compensated).tasks().started(3, 3),
            ]),
            Decision::Undo(vec![0]),
        ),
        (
            "tasks that are left as they are",
            undone([step_is("all", Completed)
                .tasks()
                .started(3, 3)
                .undo(UndoDecl::Waived { reason: "a mail" })]),
            Decision::FinishUndo,
        ),
    ]);
}
