//! Schedules: tasks that are submitted by time. Owns when one is due and what it does then. A due
//! time fires in one change, which holds the new task and the schedule's step to its next due time
//! under the revision that was read: of any number of reconcilers one writes it, and whatever is
//! cut off has written neither.

mod due;
mod fire;
mod keep;
mod plan;

pub use due::ScheduleStep;
pub use fire::{Fired, ScheduleReport};
pub use keep::{Kept, ScheduleError, delete, get, pause, run_now, set};
pub use plan::{Move, PassedOver, plan};
