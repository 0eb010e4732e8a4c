//! Schedules that are due: tasks that are submitted by time. Owns when one is due and what it does
//! then. A due time fires in one change, which holds the new task and the schedule's step to its
//! next due time under the revision that was read: of any number of reconcilers one writes it, and
//! whatever is cut off has written neither.

mod decide;
mod due;
mod pass;

pub use decide::{Move, SkipReason, moves};
pub use due::{ScheduleStep, plan};
pub use pass::{Fired, ScheduleReport, pass, run};
