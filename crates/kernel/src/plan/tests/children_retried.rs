//! Steps that submit tasks, after the task was retried: which of those are replaced, and what counts.

use super::cases::{later, step_is, table, task};
use super::children::{failed, one, request, sleeps, tasks, three, wait};
use crate::error::StepResult;
use crate::plan::{Decision, WaitStep};
use crate::waits::Wait;
use counterstep_contracts::StepStatus::Waiting;

/// One by one, three tasks of which two have to complete.
fn two_of_three() -> StepResult<Wait> {
    wait(tasks(3, 1, 2))
}

#[test]
fn after_a_retry() {
    let waits = |started| {
        step_is("all", Waiting)
            .tasks()
            .started(started, 0)
            .due(later("1h"))
    };
    let submits = |places: &[u32]| {
        one(WaitStep::Submits {
            begins: None,
            tasks: places.iter().map(|&no| (no, request(no))).collect(),
        })
    };
    table(vec![
        (
            "the place of a task that did not complete gets another one ahead of new places",
            task([waits(2)])
                .wait(0, three())
                .children(0, 1, 0)
                .retried(0, 2, 0, &[0]),
            submits(&[0, 2]),
        ),
        (
            "as many as may be under way",
            task([waits(2)])
                .wait(0, three())
                .children(0, 0, 0)
                .retried(0, 2, 0, &[0, 1]),
            submits(&[0, 1]),
        ),
        (
            "those that were submitted in this decision were not looked at",
            task([waits(4)])
                .wait(0, three())
                .children(0, 0, 0)
                .retried(0, 2, 0, &[0, 1]),
            sleeps("1h"),
        ),
        (
            "the new one counts, not the one that it has replaced",
            task([waits(4)])
                .wait(0, three())
                .children(0, 2, 0)
                .retried(0, 2, 2, &[]),
            submits(&[2]),
        ),
        (
            "also where it fails",
            task([waits(3)])
                .wait(0, three())
                .children(0, 1, 1)
                .retried(0, 2, 1, &[]),
            failed("1 of its 3 tasks did not complete"),
        ),
        (
            "one that the step can do without is not replaced",
            task([waits(2)])
                .wait(0, two_of_three())
                .children(0, 1, 0)
                .retried(0, 2, 0, &[0]),
            submits(&[2]),
        ),
        (
            "until it is needed",
            task([waits(3)])
                .wait(0, two_of_three())
                .children(0, 1, 1)
                .retried(0, 3, 0, &[0]),
            submits(&[0]),
        ),
        (
            "all have ended, and enough of them well",
            task([waits(3)])
                .wait(0, two_of_three())
                .children(0, 2, 0)
                .retried(0, 3, 0, &[0]),
            Decision::ReadChildren(0),
        ),
        (
            "a list that became shorter than what has a task",
            task([waits(5)])
                .wait(0, three())
                .children(0, 4, 0)
                .retried(0, 4, 1, &[]),
            failed(
                "the step has submitted 4 tasks, and its function gives a list of 3 now; expected the same list each \
                 time it is asked",
            ),
        ),
    ]);
}
