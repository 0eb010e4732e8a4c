//! What the judge refuses, and why each refusal is there: tried on every state there is, one rule a test.

use crate::kernel::space::{Case, cases};
use counterstep_contracts::{OnExhausted, StepStatus, TaskStatus, WaitReason};
use counterstep_kernel::saga::{Event, LifecycleEvent, Operator, StepEvent, StepState};

/// Cases of tasks in one of these states.
fn in_states(states: &'static [TaskStatus]) -> impl Iterator<Item = Case> {
    let is_in = |case: &Case| case.status.is_some_and(|status| states.contains(&status));
    cases().into_iter().filter(is_in)
}

/// The state of the task after an event; `None`: it is refused.
fn after(case: &Case, event: impl Into<Event>) -> Option<TaskStatus> {
    case.judge(event.into()).ok().map(|ruling| ruling.task)
}

/// Whether an undo of the task has something to do for the step, as people would say it.
fn has_done_something(step: &StepState) -> bool {
    let may_have = match step.status {
        StepStatus::Running
        | StepStatus::Completed
        | StepStatus::InDoubt
        | StepStatus::Compensating => true,
        StepStatus::Pending | StepStatus::Waiting | StepStatus::Failed => step.started,
        StepStatus::Skipped
        | StepStatus::Compensated
        | StepStatus::CompensationFailed
        | StepStatus::Resolved => false,
    };
    step.effects && may_have
}

fn has_effects(case: &Case) -> bool {
    case.steps.iter().any(has_done_something)
}

const POLICIES: [OnExhausted; 3] = [
    OnExhausted::Compensate,
    OnExhausted::Fail,
    OnExhausted::DeadLetter,
];

#[test]
fn what_has_started_and_has_effects_is_to_be_undone_and_nothing_else() {
    for case in cases() {
        assert_eq!(case.state().has_effects(), has_effects(&case), "{case:?}");
    }
}

#[test]
fn a_step_that_gives_up_leads_where_its_policy_says_and_never_over_a_cancel() {
    for case in in_states(&[TaskStatus::Running]) {
        for policy in POLICIES {
            let to = match policy {
                _ if case.cancel_requested || case.any_step(StepStatus::Running) => None,
                OnExhausted::DeadLetter => Some(TaskStatus::DeadLettered),
                OnExhausted::Compensate if has_effects(&case) => Some(TaskStatus::Compensating),
                OnExhausted::Compensate | OnExhausted::Fail => Some(TaskStatus::Failed),
            };
            assert_eq!(after(&case, LifecycleEvent::GaveUp(policy)), to, "{case:?}");
        }
    }
}

#[test]
fn a_task_that_is_cancelled_goes_neither_to_sleep_nor_to_its_end() {
    for case in in_states(&[TaskStatus::Running]).filter(|case| case.cancel_requested) {
        for event in [
            LifecycleEvent::Completed,
            LifecycleEvent::Waits(WaitReason::Timer),
        ] {
            assert_eq!(after(&case, event), None, "{event:?} in {case:?}");
        }
    }
}

#[test]
fn a_cancel_undoes_what_a_task_without_a_host_has_done() {
    let states = &[
        TaskStatus::Submitted,
        TaskStatus::Dispatched,
        TaskStatus::Waiting,
    ];
    let idle = |case: &Case| !case.cancel_requested && !case.any_step(StepStatus::Running);
    for case in in_states(states).filter(idle) {
        let to = match has_effects(&case) {
            true => TaskStatus::Compensating,
            false => TaskStatus::Cancelled,
        };
        assert_eq!(after(&case, LifecycleEvent::CancelRequested), Some(to));
    }
}

#[test]
fn an_undo_is_over_once_nothing_is_left_to_undo_and_no_undo_has_failed() {
    for case in cases() {
        let is_over = case.status == Some(TaskStatus::Compensating)
            && !has_effects(&case)
            && !case.any_step(StepStatus::CompensationFailed);
        for (cancelled, end) in [(true, TaskStatus::Cancelled), (false, TaskStatus::Failed)] {
            let to = after(&case, LifecycleEvent::UndoFinished { cancelled });
            assert_eq!(to, is_over.then_some(end), "{case:?}");
        }
    }
}

#[test]
fn an_undo_whose_host_is_lost_is_gone_on_with_or_left_to_a_person() {
    let idle = |case: &Case| !case.any_step(StepStatus::Running);
    for case in in_states(&[TaskStatus::Compensating]).filter(idle) {
        assert_eq!(after(&case, LifecycleEvent::LostForGood), None);
        let to = after(&case, LifecycleEvent::LostTooOften);
        assert_eq!(to, Some(TaskStatus::CompensationFailed));
    }
}

#[test]
fn a_person_leaves_no_step_behind_that_has_failed() {
    for case in in_states(&[TaskStatus::CompensationFailed]) {
        let to = after(&case, LifecycleEvent::Operator(Operator::RetryUndo));
        let is_free = !case.any_step(StepStatus::CompensationFailed);
        assert_eq!(to, is_free.then_some(TaskStatus::Compensating), "{case:?}");
    }
    for case in in_states(&[TaskStatus::DeadLettered]) {
        let to = after(&case, LifecycleEvent::Operator(Operator::Redrive));
        let is_free = !case.any_step(StepStatus::Failed);
        assert_eq!(to, is_free.then_some(TaskStatus::Dispatched), "{case:?}");
    }
}

#[test]
fn what_a_person_decides_of_a_step_needs_a_parked_task() {
    for (event, state) in [
        (StepEvent::Supplied, TaskStatus::DeadLettered),
        (StepEvent::Redriven, TaskStatus::DeadLettered),
        (StepEvent::UndoResolved, TaskStatus::CompensationFailed),
        (StepEvent::UndoRedriven, TaskStatus::CompensationFailed),
        (StepEvent::ProbeRedriven, TaskStatus::CompensationFailed),
    ] {
        for case in cases().iter().filter(|case| case.status != Some(state)) {
            assert_eq!(after(case, event.at(0)), None, "{event:?} in {case:?}");
        }
    }
}

#[test]
fn an_undo_moves_steps_only_while_the_task_is_being_undone() {
    for event in [
        StepEvent::UndoStarted,
        StepEvent::UndoRetries,
        StepEvent::UndoInDoubt,
        StepEvent::UndoSucceeded,
        StepEvent::UndoFailed,
        StepEvent::UndoWaived,
    ] {
        let others = |case: &Case| case.status != Some(TaskStatus::Compensating);
        for case in cases().into_iter().filter(others) {
            assert_eq!(after(&case, event.at(0)), None, "{event:?} in {case:?}");
        }
    }
}

#[test]
fn the_undo_of_a_step_starts_where_it_has_done_something_or_its_undo_has_begun() {
    for case in in_states(&[TaskStatus::Compensating]) {
        let Some(step) = case.steps.first() else {
            continue;
        };
        let again = step.effects && step.status == StepStatus::CompensationFailed;
        let starts = again || has_done_something(step) && step.status != StepStatus::Running;
        let to = after(&case, StepEvent::UndoStarted.at(0));
        assert_eq!(to.is_some(), starts, "{case:?}");
    }
}

#[test]
fn only_a_step_without_effects_is_kept_from_another_task() {
    for case in in_states(&[TaskStatus::Submitted]) {
        let Some(step) = case.steps.first() else {
            continue;
        };
        let is_kept = step.status == StepStatus::Pending && !step.effects;
        assert_eq!(
            after(&case, StepEvent::Kept.at(0)).is_some(),
            is_kept,
            "{case:?}"
        );
    }
}

#[test]
fn a_task_leaves_its_host_only_once_no_step_runs() {
    let runs = |case: &Case| case.any_step(StepStatus::Running);
    for case in cases().into_iter().filter(runs) {
        for event in [
            LifecycleEvent::Dispatched,
            LifecycleEvent::HandedOver,
            LifecycleEvent::TakenBack,
            LifecycleEvent::OfferedAgain,
            LifecycleEvent::LostTooOften,
            LifecycleEvent::LostForGood,
            LifecycleEvent::Waits(WaitReason::Timer),
            LifecycleEvent::GaveUp(OnExhausted::Fail),
            LifecycleEvent::Stopped,
            LifecycleEvent::Quarantined,
        ] {
            assert_eq!(after(&case, event), None, "{event:?} in {case:?}");
        }
    }
}
