//! The planner: what is next for a task, from its declaration, its rows and the facts that its host
//! has gathered. Pure: no I/O, no clock, no chance, no code of a step. A turn, a recovery and the
//! plan of an undo ask the same functions; `tests` is its table of cases.

mod after_failure;
mod backward;
mod children;
#[cfg(test)]
mod combinations;
mod decision;
mod forward;
mod scratch;
mod stages;
#[cfg(test)]
mod tests;
mod undo_order;
mod view;
mod waits;

pub(crate) use after_failure::{AfterFailure, Ended, after_failure, failure_of};
pub(crate) use decision::{Decision, SHUTS_DOWN, WaitStep};
pub use stages::*;
pub use undo_order::*;
pub(crate) use view::{Answers, Children, Facts, Probes, Room, View};
pub(crate) use waits::waits;

use counterstep_contracts::TaskStatus;

/// What is next for the task.
pub(crate) fn decide(view: &View<'_>) -> Decision {
    match view.record.task.status {
        status if status.is_at_rest() => Decision::Rest,
        TaskStatus::Compensating => backward::decide(view),
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Running
        | TaskStatus::Waiting
        | TaskStatus::Completed
        | TaskStatus::CompensationFailed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::DeadLettered
        | TaskStatus::Resolved => forward::decide(view),
    }
}
