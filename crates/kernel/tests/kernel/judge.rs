//! What must hold of the judge whatever its rules are, tried on every state there is.

mod design;
mod reach;
mod refusals;

use super::space::{Case, cases, statuses};
use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_kernel::saga::{Event, LifecycleEvent, StepEvent};
use std::collections::HashSet;

#[test]
fn the_samples_hold_every_event_once() {
    let samples = Event::samples();
    let distinct: HashSet<String> = samples.iter().map(|event| format!("{event:?}")).collect();
    assert_eq!(distinct.len(), samples.len());
    assert!(
        samples
            .iter()
            .all(|event| event.step().is_none_or(|at| at == 0))
    );
}

/// What an event leads to, but for the one that only notes something.
fn moved_on(case: &Case) -> Vec<(Event, Case)> {
    let mut next = case.successors();
    next.retain(|(event, _)| !matches!(event, Event::Step(_, StepEvent::ResultDropped)));
    next
}

#[test]
fn a_result_that_is_dropped_changes_nothing() {
    let mut dropped = 0;
    for case in cases() {
        for (event, next) in case.successors() {
            if matches!(event, Event::Step(_, StepEvent::ResultDropped)) {
                assert_eq!(next, case);
                dropped += 1;
            }
        }
    }
    assert!(dropped > 0);
}

#[test]
fn a_terminal_state_accepts_no_event() {
    for case in cases()
        .iter()
        .filter(|case| case.status.is_some_and(TaskStatus::is_terminal))
    {
        let mut next = moved_on(case);
        if case.is_child && case.status == Some(TaskStatus::Completed) {
            next.retain(|(event, _)| *event != Event::Task(LifecycleEvent::ParentUndone));
        }
        assert_eq!(next, [], "{case:?}");
    }
}

#[test]
fn only_a_child_that_has_completed_is_undone_with_its_parent() {
    for case in cases() {
        let ruling = case.judge(LifecycleEvent::ParentUndone.into());
        let expected = case.is_child && case.status == Some(TaskStatus::Completed);
        assert_eq!(ruling.is_ok(), expected, "{case:?}");
        if let Ok(ruling) = ruling {
            assert_eq!(ruling.task, TaskStatus::Compensating);
        }
    }
}

#[test]
fn every_state_that_is_not_terminal_can_be_left() {
    for status in statuses().filter(|status| !status.is_some_and(TaskStatus::is_terminal)) {
        let all = cases();
        let mut of_it = all.iter().filter(|case| case.status == status);
        assert!(
            of_it.any(|case| case
                .successors()
                .iter()
                .any(|(_, next)| next.status != status)),
            "{status:?}"
        );
    }
}

#[test]
fn only_a_person_moves_a_parked_task() {
    for case in cases()
        .iter()
        .filter(|case| case.status.is_some_and(TaskStatus::is_parked))
    {
        for (event, next) in moved_on(case) {
            let by_a_person = matches!(
                event,
                Event::Task(LifecycleEvent::Operator(_))
                    | Event::Step(
                        _,
                        StepEvent::Supplied
                            | StepEvent::Redriven
                            | StepEvent::UndoResolved
                            | StepEvent::UndoRedriven
                            | StepEvent::ProbeRedriven
                    )
            );
            assert!(by_a_person, "{event:?} leads from {case:?} to {next:?}");
        }
    }
}

#[test]
fn resolved_is_reached_from_a_parked_task_only() {
    for case in cases() {
        for (event, next) in moved_on(&case) {
            if next.status == Some(TaskStatus::Resolved) {
                assert!(
                    case.status.is_some_and(TaskStatus::is_parked),
                    "{event:?} leads there from {case:?}"
                );
            }
            if count(&next, StepStatus::Resolved) > count(&case, StepStatus::Resolved) {
                assert_eq!(
                    case.status,
                    Some(TaskStatus::CompensationFailed),
                    "{event:?} settles a step of {case:?}"
                );
            }
        }
    }
}

#[test]
fn an_illegal_event_names_itself_and_where_it_was_refused() {
    for case in cases() {
        for event in Event::samples() {
            let before = case.clone();
            let ruling = case.judge(event);
            assert_eq!(
                (&case, case.judge(event)),
                (&before, ruling),
                "the same question has one answer"
            );
            if let Err(illegal) = ruling {
                assert_eq!((illegal.event, illegal.status), (event.name(), case.status));
                assert!(!illegal.why.is_empty());
            }
        }
    }
}

#[test]
fn an_event_of_a_step_moves_that_step_alone_and_one_of_the_task_moves_none() {
    for case in cases() {
        for (event, ruling) in Event::samples()
            .into_iter()
            .filter_map(|e| case.judge(e).ok().map(|ruling| (e, ruling)))
        {
            assert_eq!(ruling.step.map(|(at, _)| at), event.step(), "{event:?}");
            if event.step().is_some() {
                assert_eq!(
                    Some(ruling.task),
                    case.status,
                    "{event:?} moves the whole of {case:?}"
                );
            }
        }
    }
}

#[test]
fn after_an_accepted_cancel_nothing_starts_and_nothing_completes() {
    for case in cases().iter().filter(|case| case.cancel_requested) {
        for event in [StepEvent::Started.at(0), LifecycleEvent::Completed.into()] {
            assert!(case.judge(event).is_err(), "{event:?} in {case:?}");
        }
    }
}

#[test]
fn a_step_without_effects_is_never_undone() {
    for case in cases()
        .iter()
        .filter(|case| case.steps.first().is_some_and(|step| !step.effects))
    {
        assert!(
            case.judge(StepEvent::UndoStarted.at(0)).is_err(),
            "{case:?}"
        );
    }
}

#[test]
fn a_step_that_has_run_is_never_skipped() {
    for case in cases()
        .iter()
        .filter(|case| case.steps.first().is_some_and(|step| step.started))
    {
        assert!(case.judge(StepEvent::Skipped.at(0)).is_err(), "{case:?}");
    }
}

fn count(case: &Case, status: StepStatus) -> usize {
    case.steps
        .iter()
        .filter(|step| step.status == status)
        .count()
}
