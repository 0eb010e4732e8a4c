//! The judge's rules for a single step. Every pair of event and state is named or refused.

use super::{State, StepEvent, StepState};
use counterstep_contracts::{StepStatus, TaskStatus};

type Rule = Result<StepStatus, &'static str>;

pub(super) fn rule(state: &State<'_>, task: TaskStatus, step: StepState, event: StepEvent) -> Rule {
    let from = step.status;
    match event {
        StepEvent::Started => {
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
        StepEvent::Skipped => {
            going_forward(task, &[TaskStatus::Submitted, TaskStatus::Running])?;
            if step.started {
                return Err("it has run: what it did would never be undone");
            }
            one_of(from, &[StepStatus::Pending], StepStatus::Skipped)
        }
        StepEvent::Kept => {
            going_forward(task, &[TaskStatus::Submitted])?;
            if step.effects {
                return Err("what it did belongs to another task");
            }
            one_of(from, &[StepStatus::Pending], StepStatus::Completed)
        }
        StepEvent::Succeeded => {
            going_forward(task, &[TaskStatus::Submitted, TaskStatus::Running])?;
            one_of(from, &[StepStatus::Running], StepStatus::Completed)
        }
        StepEvent::Retries | StepEvent::Waits | StepEvent::FallsBack => {
            going_forward(task, &[TaskStatus::Running])?;
            one_of(from, &[StepStatus::Running], StepStatus::Waiting)
        }
        StepEvent::ChildrenSubmitted => {
            going_forward(task, &[TaskStatus::Running])?;
            if state.cancel_requested {
                return Err("a cancel was accepted: no step submits tasks any more");
            }
            one_of(from, &[StepStatus::Waiting], StepStatus::Waiting)
        }
        StepEvent::SignalReceived => {
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
        StepEvent::Failed => {
            going_forward(task, &[TaskStatus::Running])?;
            one_of(from, &[StepStatus::Running], StepStatus::Failed)
        }
        StepEvent::InDoubt => {
            going_forward(task, &[TaskStatus::Running])?;
            one_of(from, &[StepStatus::Running], StepStatus::InDoubt)
        }
        // Whatever has become of the task since, at rest or not: nothing changes.
        StepEvent::ResultDropped => match from {
            StepStatus::Skipped => Err("no attempt of it has ever started"),
            StepStatus::Pending
            | StepStatus::Running
            | StepStatus::Waiting
            | StepStatus::Completed
            | StepStatus::Failed
            | StepStatus::InDoubt
            | StepStatus::Compensating
            | StepStatus::Compensated
            | StepStatus::CompensationFailed
            | StepStatus::Resolved => Ok(from),
        },
        StepEvent::ScratchLost => {
            going_forward(task, &[TaskStatus::Running])?;
            one_of(from, &[StepStatus::Completed], StepStatus::Pending)
        }
        StepEvent::Rebuilt => {
            going_forward(task, &[TaskStatus::Running])?;
            one_of(from, &[StepStatus::Completed], StepStatus::Completed)
        }
        StepEvent::Settled { done } => settled(task, from, done),
        StepEvent::ProbeRetries | StepEvent::ProbeFailed => {
            let failed = event == StepEvent::ProbeFailed;
            if failed && task == TaskStatus::Compensating && !step.effects {
                return Err("it has no effects to undo");
            }
            let to = match task {
                TaskStatus::Running => StepStatus::InDoubt,
                // What has to be undone is unknown: it is for a person.
                TaskStatus::Compensating if failed => StepStatus::CompensationFailed,
                TaskStatus::Compensating => StepStatus::InDoubt,
                _ => return Err("only of a task that a host has is a step probed"),
            };
            one_of(from, &[StepStatus::InDoubt], to)
        }
        StepEvent::Supplied => {
            parked(task, TaskStatus::DeadLettered)?;
            one_of(
                from,
                &[StepStatus::Failed, StepStatus::InDoubt],
                StepStatus::Completed,
            )
        }
        StepEvent::Redriven => {
            parked(task, TaskStatus::DeadLettered)?;
            one_of(from, &[StepStatus::Failed], StepStatus::Waiting)
        }
        StepEvent::UndoStarted => {
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
        StepEvent::UndoRetries | StepEvent::UndoInDoubt => {
            being_undone(task)?;
            one_of(from, &[StepStatus::Compensating], StepStatus::Compensating)
        }
        StepEvent::UndoSucceeded => {
            being_undone(task)?;
            one_of(from, &[StepStatus::Compensating], StepStatus::Compensated)
        }
        StepEvent::UndoFailed => {
            being_undone(task)?;
            one_of(
                from,
                &[StepStatus::Compensating],
                StepStatus::CompensationFailed,
            )
        }
        StepEvent::UndoWaived => {
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
        StepEvent::UndoResolved => {
            parked(task, TaskStatus::CompensationFailed)?;
            one_of(
                from,
                &[StepStatus::CompensationFailed],
                StepStatus::Resolved,
            )
        }
        StepEvent::ProbeRedriven => {
            parked(task, TaskStatus::CompensationFailed)?;
            one_of(from, &[StepStatus::CompensationFailed], StepStatus::InDoubt)
        }
        // The attempt itself starts under the lease of the next host that claims the task.
        StepEvent::UndoRedriven => {
            parked(task, TaskStatus::CompensationFailed)?;
            one_of(
                from,
                &[StepStatus::CompensationFailed],
                StepStatus::Compensating,
            )
        }
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
