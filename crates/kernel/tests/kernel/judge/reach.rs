//! What no sequence of events, however long, leads to; and what some sequence must always lead to.

use crate::kernel::space::{Case, cases};
use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_kernel::saga::{Event, LifecycleEvent};
use std::collections::HashSet;

/// All that can come of the given cases, themselves included.
fn reachable(from: impl IntoIterator<Item = Case>) -> HashSet<Case> {
    let mut open: Vec<Case> = from.into_iter().collect();
    let mut seen: HashSet<Case> = open.iter().cloned().collect();
    while let Some(case) = open.pop() {
        for (_, next) in case.successors() {
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    seen
}

/// All that can come of a submission.
fn lives() -> HashSet<Case> {
    let effects = [[false, false], [false, true], [true, false], [true, true]];
    let alone = effects.map(|effects| Case::unborn(false, effects));
    reachable(
        alone
            .into_iter()
            .chain(effects.map(|effects| Case::unborn(true, effects))),
    )
}

#[test]
fn once_compensating_no_sequence_of_events_goes_forward_again() {
    // From each case that can be written down, not just from those that a task gets into.
    let start = cases()
        .into_iter()
        .filter(|case| case.status == Some(TaskStatus::Compensating));
    for case in reachable(start) {
        let backward = [
            TaskStatus::Compensating,
            TaskStatus::CompensationFailed,
            TaskStatus::Failed,
            TaskStatus::Cancelled,
            TaskStatus::Resolved,
        ];
        assert!(
            case.status.is_some_and(|status| backward.contains(&status)),
            "{case:?}"
        );
        for (event, next) in case.successors() {
            for (old, new) in case.steps.iter().zip(&next.steps) {
                let forward = [
                    StepStatus::Running,
                    StepStatus::Completed,
                    StepStatus::Waiting,
                    StepStatus::Pending,
                ];
                let moved = old.status != new.status;
                assert!(
                    !(moved && forward.contains(&new.status)),
                    "{event:?} leads from {case:?} to {next:?}"
                );
            }
        }
    }
}

#[test]
fn a_completed_task_has_completed_every_step_that_was_not_skipped() {
    for case in lives()
        .iter()
        .filter(|case| case.status == Some(TaskStatus::Completed))
    {
        let done = |status| matches!(status, StepStatus::Completed | StepStatus::Skipped);
        assert!(
            case.steps.iter().all(|step| done(step.status)) && !case.cancel_requested,
            "{case:?}"
        );
    }
}

#[test]
fn a_cancelled_task_has_nothing_left_to_undo() {
    for case in lives()
        .iter()
        .filter(|case| case.status == Some(TaskStatus::Cancelled))
    {
        assert!(
            !case.state().has_effects() && !case.any_step(StepStatus::CompensationFailed),
            "{case:?}"
        );
    }
}

#[test]
fn every_task_can_come_to_rest_without_a_person() {
    let at_rest = |case: &Case| case.status.is_some_and(TaskStatus::is_at_rest);
    assert_eq!(never_reaching(lives(), at_rest, |_| true), []);
}

#[test]
fn an_undo_can_always_be_finished_by_undoing() {
    // A step that still ran would be stuck: while compensating, nothing takes it out of Running.
    let begun: Vec<Case> = lives()
        .into_iter()
        .filter(|case| case.status == Some(TaskStatus::Compensating))
        .collect();
    assert!(!begun.iter().any(|case| case.any_step(StepStatus::Running)));
    let is_undone = |case: &Case| {
        matches!(
            case.status,
            Some(TaskStatus::Failed | TaskStatus::Cancelled)
        )
    };
    let by_undoing = |event: Event| {
        matches!(
            event,
            Event::Step(..) | Event::Task(LifecycleEvent::UndoFinished { .. })
        )
    };
    let stuck = never_reaching(reachable(begun.clone()), is_undone, by_undoing);
    assert!(!stuck.iter().any(|case| begun.contains(case)), "{stuck:?}");
}

/// The cases from which the allowed events never lead to the goal. Goes backwards from the goal:
/// what leads to a case that can get there can get there as well.
fn never_reaching(
    cases: HashSet<Case>,
    goal: fn(&Case) -> bool,
    allowed: fn(Event) -> bool,
) -> Vec<Case> {
    let (there, mut open): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(goal);
    let mut there: HashSet<Case> = there.into_iter().collect();
    loop {
        let before = open.len();
        open.retain(|case| {
            let gets_there = case
                .successors()
                .iter()
                .any(|(event, next)| allowed(*event) && there.contains(next));
            if gets_there {
                there.insert(case.clone());
            }
            !gets_there
        });
        if open.len() == before {
            return open;
        }
    }
}

#[test]
fn every_state_of_a_task_is_one_that_tasks_get_into() {
    let lives = lives();
    for &status in TaskStatus::ALL {
        assert!(
            lives.iter().any(|case| case.status == Some(status)),
            "{status}"
        );
    }
    for &status in StepStatus::ALL {
        assert!(lives.iter().any(|case| case.any_step(status)), "{status}");
    }
}
