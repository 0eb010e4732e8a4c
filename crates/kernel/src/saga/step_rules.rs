//! The judge's rules for a single step. Every pair of event and state is named or refused.

use super::{Event, State, StepState};
use counterstep_contracts::{StepStatus, TaskStatus};

type Rule = Result<StepStatus, &'static str>;

pub(super) fn rule(state: &State<'_>, task: TaskStatus, step: StepState, event: Event) -> Rule {
    let from = step.status;
    match event {
        Event::StepStarted(_) => {
            // While Submitted, the request itself carried the step out: its files were stored while
            // it arrived.
            going_forward(task, &[TaskStatus::Submitted, TaskStatus::Running])?;
            if state.cancel_requested {
                return Err("a cancel was accepted: no step starts any more");
            }
            one_of(
                from,
                &[
                    StepStatus::Pending,
                    StepStatus::Waiting,
                    StepStatus::InDoubt,
                ],
                StepStatus::Running,
            )
        }
        Event::StepSkipped(_) => {
            going_forward(task, &[TaskStatus::Submitted, TaskStatus::Running])?;
            one_of(from, &[StepStatus::Pending], StepStatus::Skipped)
        }
        Event::StepSucceeded(_) => {
            going_forward(task, &[TaskStatus::Submitted, TaskStatus::Running])?;
            one_of(from, &[StepStatus::Running], StepStatus::Completed)
        }
        Event::StepRetries(_) | Event::StepWaits(_) | Event::StepFallsBack(_) => {
            going_forward(task, &[TaskStatus::Running])?;
            one_of(from, &[StepStatus::Running], StepStatus::Waiting)
        }
        Event::SignalReceived(_) => {
            let forward = [
                TaskStatus::Submitted,
                TaskStatus::Dispatched,
                TaskStatus::Running,
                TaskStatus::Waiting,
            ];
            going_forward(task, &forward)?;
            if state.cancel_requested {
                return Err("a cancel was accepted: no step waits for it any more");
            }
            match from {
                StepStatus::Pending | StepStatus::Waiting => Ok(from),
                StepStatus::Running
                | StepStatus::Completed
                | StepStatus::Skipped
                | StepStatus::Failed
                | StepStatus::InDoubt
                | StepStatus::Compensating
                | StepStatus::Compensated
                | StepStatus::CompensationFailed
                | StepStatus::Resolved => Err("the step is past waiting for it"),
            }
        }
        Event::StepFailed(_) => {
            going_forward(task, &[TaskStatus::Running])?;
            one_of(from, &[StepStatus::Running], StepStatus::Failed)
        }
        Event::StepInDoubt(_) => {
            going_forward(task, &[TaskStatus::Running])?;
            one_of(from, &[StepStatus::Running], StepStatus::InDoubt)
        }
        Event::StepScratchLost(_) => {
            going_forward(task, &[TaskStatus::Running])?;
            one_of(from, &[StepStatus::Completed], StepStatus::Pending)
        }
        Event::StepRebuilt(_) => {
            going_forward(task, &[TaskStatus::Running])?;
            one_of(from, &[StepStatus::Completed], StepStatus::Completed)
        }
        Event::StepSettled(_, done) => settled(task, from, done),
        Event::StepSupplied(_) => {
            parked(task, TaskStatus::DeadLettered)?;
            one_of(
                from,
                &[StepStatus::Failed, StepStatus::InDoubt],
                StepStatus::Completed,
            )
        }
        Event::StepRedriven(_) => {
            parked(task, TaskStatus::DeadLettered)?;
            one_of(from, &[StepStatus::Failed], StepStatus::Waiting)
        }
        Event::UndoStarted(_) => {
            being_undone(task)?;
            if !step.effects {
                return Err("it has no effects to undo");
            }
            if matches!(
                from,
                StepStatus::Pending | StepStatus::Waiting | StepStatus::Failed
            ) && !step.started
            {
                return Err("it never started, or never did anything");
            }
            one_of(
                from,
                &[
                    StepStatus::Pending,
                    StepStatus::Waiting,
                    StepStatus::Completed,
                    StepStatus::Failed,
                    StepStatus::InDoubt,
                    StepStatus::Compensating,
                    StepStatus::CompensationFailed,
                ],
                StepStatus::Compensating,
            )
        }
        Event::UndoRetries(_) | Event::UndoInDoubt(_) => {
            being_undone(task)?;
            one_of(from, &[StepStatus::Compensating], StepStatus::Compensating)
        }
        Event::UndoSucceeded(_) => {
            being_undone(task)?;
            one_of(from, &[StepStatus::Compensating], StepStatus::Compensated)
        }
        Event::UndoFailed(_) => {
            being_undone(task)?;
            one_of(
                from,
                &[StepStatus::Compensating],
                StepStatus::CompensationFailed,
            )
        }
        Event::UndoWaived(_) => {
            being_undone(task)?;
            if step.effects {
                return Err("its undo is not waived");
            }
            match from {
                StepStatus::Pending if step.started => Ok(from),
                StepStatus::Waiting
                | StepStatus::Completed
                | StepStatus::Failed
                | StepStatus::InDoubt => Ok(from),
                StepStatus::Running => Err("it is still running"),
                StepStatus::Pending
                | StepStatus::Skipped
                | StepStatus::Compensating
                | StepStatus::Compensated
                | StepStatus::CompensationFailed
                | StepStatus::Resolved => Err("it never started"),
            }
        }
        Event::UndoResolved(_) => {
            parked(task, TaskStatus::CompensationFailed)?;
            one_of(
                from,
                &[StepStatus::CompensationFailed],
                StepStatus::Resolved,
            )
        }
        // The attempt itself starts under the lease of the next host that claims the task.
        Event::UndoRedriven(_) => {
            parked(task, TaskStatus::CompensationFailed)?;
            one_of(
                from,
                &[StepStatus::CompensationFailed],
                StepStatus::Compensating,
            )
        }
        Event::Submitted
        | Event::Dispatched
        | Event::Claimed
        | Event::HandedOver
        | Event::TakenBack
        | Event::OfferedAgain
        | Event::LostTooOften
        | Event::LostForGood
        | Event::Waits(_)
        | Event::Completed
        | Event::GaveUp(_)
        | Event::CancelRequested
        | Event::Stopped
        | Event::UndoFinished { .. }
        | Event::UndoGaveUp
        | Event::Quarantined
        | Event::Operator(_) => Err("it concerns the whole task"),
    }
}

fn settled(task: TaskStatus, from: StepStatus, done: bool) -> Rule {
    match (task, done) {
        (TaskStatus::Running, true) => one_of(from, &[StepStatus::InDoubt], StepStatus::Completed),
        (TaskStatus::Compensating, false) => {
            one_of(from, &[StepStatus::InDoubt], StepStatus::Compensated)
        }
        (TaskStatus::Running, false) => Err("it has not taken effect, so it runs"),
        (_, true) => Err("only a running task's step is settled as done"),
        (_, false) => {
            Err("only while the task is being undone does \"nothing happened\" settle a step")
        }
    }
}

fn going_forward(task: TaskStatus, allowed: &[TaskStatus]) -> Result<(), &'static str> {
    if allowed.contains(&task) {
        Ok(())
    } else {
        Err("the task does not go forward now")
    }
}

fn being_undone(task: TaskStatus) -> Result<(), &'static str> {
    if task == TaskStatus::Compensating {
        Ok(())
    } else {
        Err("the task is not being undone")
    }
}

fn parked(task: TaskStatus, needed: TaskStatus) -> Result<(), &'static str> {
    if task == needed {
        Ok(())
    } else {
        Err("the task is not parked for that")
    }
}

fn one_of(from: StepStatus, allowed: &[StepStatus], to: StepStatus) -> Rule {
    if allowed.contains(&from) {
        Ok(to)
    } else {
        Err("the step does not stand where that can happen")
    }
}
