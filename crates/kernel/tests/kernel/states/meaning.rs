//! One line for every state. The only words of the page that are not asked from the judge.

use counterstep_contracts::{StepStatus, TaskStatus};

pub(super) const fn of_a_task(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Submitted => "Accepted. The next step is to run in an API process.",
        TaskStatus::Dispatched => {
            "It waits for a host of its queue. A message wakes one up; where it is lost, polling finds the task."
        }
        TaskStatus::Running => "A host holds the lease and runs forward steps.",
        TaskStatus::Waiting => {
            "Waits by itself: for a retry, a breaker, a limit, a place, a timer, a signal, tasks that it has submitted, or a worker of its version."
        }
        TaskStatus::Completed => "Every step that was not skipped has completed.",
        TaskStatus::Compensating => {
            "It is being undone, in reverse. No forward step ever runs again."
        }
        TaskStatus::CompensationFailed => {
            "While it was being undone, an undo gave up, hosts were lost too often, or it could not be loaded."
        }
        TaskStatus::Failed => {
            "It did not succeed. Nothing is left to undo, or its policy said to leave it."
        }
        TaskStatus::Cancelled => "It was cancelled, and what it had done is undone.",
        TaskStatus::DeadLettered => {
            "It gave up and its policy parks it, or it could not be loaded."
        }
        TaskStatus::Resolved => "A person settled it by hand, with a note.",
    }
}

pub(super) const fn of_a_step(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Pending => "Not started, or to be made again because its scratch is gone.",
        StepStatus::Running => "An attempt is open under the current epoch.",
        StepStatus::Waiting => {
            "Between two attempts, or for a timer, a signal or tasks that it has submitted. In a task that has ended: so it was \
             when the task was cancelled or failed, and there was nothing of it to undo."
        }
        StepStatus::Completed => "Its one output is committed.",
        StepStatus::Skipped => "Its condition said no.",
        StepStatus::Failed => "It gave up. What it may have done is undone all the same.",
        StepStatus::InDoubt => {
            "Started, outcome unknown: its lease was lost, or the process shut down."
        }
        StepStatus::Compensating => "Its undo is under way, or due again.",
        StepStatus::Compensated => "Its undo is done.",
        StepStatus::CompensationFailed => "Its undo gave up.",
        StepStatus::Resolved => "A person settled its undo by hand.",
    }
}
