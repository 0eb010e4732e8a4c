//! The judge's rules for the task as a whole. Every pair of event and state is named or refused.

use super::{LifecycleEvent, Operator, State, after_giving_up};
use counterstep_contracts::{StepStatus, TaskStatus};

type Rule = Result<TaskStatus, &'static str>;

pub(super) fn rule(state: &State<'_>, event: LifecycleEvent) -> Rule {
    let Some(status) = state.status else {
        return match event {
            LifecycleEvent::Submitted => Ok(TaskStatus::Submitted),
            _ => Err("the task does not exist yet"),
        };
    };
    // An attempt under way is ended first, as in doubt where its outcome is unknown: once the task
    // is with another host, or being undone, nothing could end it any more.
    let leaves = matches!(
        event,
        LifecycleEvent::Dispatched
            | LifecycleEvent::HandedOver
            | LifecycleEvent::TakenBack
            | LifecycleEvent::OfferedAgain
            | LifecycleEvent::LostTooOften
            | LifecycleEvent::LostForGood
            | LifecycleEvent::Waits(_)
            | LifecycleEvent::GaveUp(_)
            | LifecycleEvent::Stopped
            | LifecycleEvent::Quarantined
    );
    let cancels_unheld = event == LifecycleEvent::CancelRequested && status != TaskStatus::Running;
    if (leaves || cancels_unheld)
        && state
            .steps
            .iter()
            .any(|step| step.status == StepStatus::Running)
    {
        return Err("a step of it is still running");
    }
    match event {
        LifecycleEvent::Submitted => Err("it has been submitted before"),
        LifecycleEvent::Dispatched => {
            only(status, &[TaskStatus::Submitted], TaskStatus::Dispatched)
        }
        LifecycleEvent::Claimed => claimed(status),
        LifecycleEvent::HandedOver | LifecycleEvent::TakenBack => given_back(status),
        LifecycleEvent::OfferedAgain => offered_again(status),
        LifecycleEvent::LostTooOften => lost_too_often(state, status),
        LifecycleEvent::LostForGood => lost_for_good(state, status),
        LifecycleEvent::Waits(_) => waits(state, status),
        LifecycleEvent::Completed => completed(state, status),
        LifecycleEvent::GaveUp(policy) => match status {
            TaskStatus::Running if state.cancel_requested => {
                Err("a cancel was accepted: it stops instead")
            }
            TaskStatus::Running => Ok(after_giving_up(state, policy)),
            _ => Err("only a running task gives up"),
        },
        LifecycleEvent::CancelRequested => cancel_requested(state, status),
        LifecycleEvent::Stopped => match status {
            TaskStatus::Running if state.cancel_requested => Ok(TaskStatus::Compensating),
            TaskStatus::Running => Err("no cancel was accepted"),
            _ => Err("only a running task stops"),
        },
        LifecycleEvent::UndoFinished { cancelled } => undo_finished(state, status, cancelled),
        LifecycleEvent::UndoGaveUp => match status {
            TaskStatus::Compensating
                if state
                    .steps
                    .iter()
                    .any(|s| s.status == StepStatus::CompensationFailed) =>
            {
                Ok(TaskStatus::CompensationFailed)
            }
            TaskStatus::Compensating => Err("no undo has given up"),
            _ => Err("it is not being undone"),
        },
        LifecycleEvent::ParentUndone => match status {
            TaskStatus::Completed if state.is_child => Ok(TaskStatus::Compensating),
            TaskStatus::Completed => Err("no task has submitted it"),
            _ => Err("it has not completed"),
        },
        LifecycleEvent::Quarantined => quarantined(status),
        LifecycleEvent::Operator(decision) => operator(state, status, decision),
    }
}

fn only(status: TaskStatus, from: &[TaskStatus], to: TaskStatus) -> Rule {
    if from.contains(&status) {
        Ok(to)
    } else {
        Err("it is past that")
    }
}

fn claimed(status: TaskStatus) -> Rule {
    match status {
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Running
        | TaskStatus::Waiting => Ok(TaskStatus::Running),
        // Never to Running: once compensating, no forward step runs again.
        TaskStatus::Compensating => Ok(TaskStatus::Compensating),
        TaskStatus::Completed
        | TaskStatus::CompensationFailed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::DeadLettered
        | TaskStatus::Resolved => Err("it is at rest"),
    }
}

fn given_back(status: TaskStatus) -> Rule {
    match status {
        TaskStatus::Running => Ok(TaskStatus::Dispatched),
        TaskStatus::Compensating => Ok(TaskStatus::Compensating),
        TaskStatus::Submitted | TaskStatus::Dispatched | TaskStatus::Waiting => {
            Err("no host has claimed it")
        }
        TaskStatus::Completed
        | TaskStatus::CompensationFailed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::DeadLettered
        | TaskStatus::Resolved => Err("it is at rest"),
    }
}

fn offered_again(status: TaskStatus) -> Rule {
    match status {
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Waiting
        | TaskStatus::Compensating => Ok(status),
        TaskStatus::Running => Err("a host has it"),
        TaskStatus::Completed
        | TaskStatus::CompensationFailed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::DeadLettered
        | TaskStatus::Resolved => Err("it is at rest"),
    }
}

fn lost_too_often(state: &State<'_>, status: TaskStatus) -> Rule {
    match status {
        TaskStatus::Running if state.has_effects() => Ok(TaskStatus::Compensating),
        TaskStatus::Running => Ok(TaskStatus::Failed),
        TaskStatus::Compensating => Ok(TaskStatus::CompensationFailed),
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Waiting
        | TaskStatus::Completed
        | TaskStatus::CompensationFailed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::DeadLettered
        | TaskStatus::Resolved => Err("no host holds it"),
    }
}

fn lost_for_good(state: &State<'_>, status: TaskStatus) -> Rule {
    if status == TaskStatus::Compensating {
        // What it has done must not stay because the host that was undoing it is gone.
        return Err("an undo always continues on another host");
    }
    lost_too_often(state, status)
}

fn waits(state: &State<'_>, status: TaskStatus) -> Rule {
    if status != TaskStatus::Running {
        return Err("only a running task is put to sleep");
    }
    if state.cancel_requested {
        return Err("a cancel was accepted: it stops instead");
    }
    Ok(TaskStatus::Waiting)
}

fn completed(state: &State<'_>, status: TaskStatus) -> Rule {
    if !matches!(status, TaskStatus::Submitted | TaskStatus::Running) {
        return Err("only a task whose steps have just ended completes");
    }
    if state.cancel_requested {
        return Err("a cancel was accepted: it stops instead");
    }
    if !state
        .steps
        .iter()
        .all(|step| matches!(step.status, StepStatus::Completed | StepStatus::Skipped))
    {
        return Err("not all of its steps have completed");
    }
    Ok(TaskStatus::Completed)
}

fn cancel_requested(state: &State<'_>, status: TaskStatus) -> Rule {
    if state.cancel_requested {
        return Err("a cancel was accepted before");
    }
    match status {
        // No host holds a lease in these states, so the caller carries it out.
        TaskStatus::Submitted | TaskStatus::Dispatched | TaskStatus::Waiting
            if state.has_effects() =>
        {
            Ok(TaskStatus::Compensating)
        }
        TaskStatus::Submitted | TaskStatus::Dispatched | TaskStatus::Waiting => {
            Ok(TaskStatus::Cancelled)
        }
        // The owner of the lease honours it.
        TaskStatus::Running => Ok(TaskStatus::Running),
        TaskStatus::Compensating => Err("it is being undone"),
        TaskStatus::CompensationFailed | TaskStatus::DeadLettered => Err("it is parked"),
        TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::Resolved => Err("it has ended"),
    }
}

fn undo_finished(state: &State<'_>, status: TaskStatus, cancelled: bool) -> Rule {
    if status != TaskStatus::Compensating {
        return Err("it is not being undone");
    }
    if state.has_effects() {
        return Err("a step has not been undone yet");
    }
    if state
        .steps
        .iter()
        .any(|step| step.status == StepStatus::CompensationFailed)
    {
        return Err("the undo of a step has failed");
    }
    Ok(if cancelled {
        TaskStatus::Cancelled
    } else {
        TaskStatus::Failed
    })
}

fn quarantined(status: TaskStatus) -> Rule {
    match status {
        TaskStatus::Dispatched | TaskStatus::Running | TaskStatus::Waiting => {
            Ok(TaskStatus::DeadLettered)
        }
        TaskStatus::Compensating => Ok(TaskStatus::CompensationFailed),
        TaskStatus::Submitted => Err("it must be claimed first"),
        TaskStatus::Completed
        | TaskStatus::CompensationFailed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::DeadLettered
        | TaskStatus::Resolved => Err("it is at rest"),
    }
}

fn operator(state: &State<'_>, status: TaskStatus, decision: Operator) -> Rule {
    match (decision, status) {
        (Operator::RetryUndo, TaskStatus::CompensationFailed) => {
            // One that is still failed would be a barrier: it is tried again, or settled by hand,
            // first.
            if state
                .steps
                .iter()
                .any(|step| step.status == StepStatus::CompensationFailed)
            {
                Err("the undo of a step is still failed: retry or settle it first")
            } else {
                Ok(TaskStatus::Compensating)
            }
        }
        (Operator::Resolve, TaskStatus::CompensationFailed | TaskStatus::DeadLettered) => {
            Ok(TaskStatus::Resolved)
        }
        (Operator::Redrive, TaskStatus::DeadLettered) => {
            // A failed step that is still failed would be left out: it is redriven, or its
            // output supplied, first.
            if state
                .steps
                .iter()
                .any(|step| step.status == StepStatus::Failed)
            {
                Err("a step of it is still failed: redrive it or supply its output first")
            } else {
                Ok(TaskStatus::Dispatched)
            }
        }
        (Operator::Undo, TaskStatus::DeadLettered) => Ok(TaskStatus::Compensating),
        (Operator::RunAgain, TaskStatus::Submitted) => Ok(TaskStatus::Submitted),
        (Operator::SetRecoveries, status) => match status {
            TaskStatus::Submitted
            | TaskStatus::Dispatched
            | TaskStatus::Running
            | TaskStatus::Waiting
            | TaskStatus::Compensating
            | TaskStatus::CompensationFailed
            | TaskStatus::DeadLettered => Ok(status),
            TaskStatus::Completed
            | TaskStatus::Failed
            | TaskStatus::Cancelled
            | TaskStatus::Resolved => Err("it has ended: no host will have it again"),
        },
        (Operator::RetryUndo, _) => Err("no undo of it has given up"),
        (Operator::Redrive | Operator::Undo, _) => Err("it is not dead-lettered"),
        (Operator::Resolve, _) => Err("it is not parked"),
        (Operator::RunAgain, _) => Err("only with its first change is a task another one again"),
    }
}
