//! Schedules: tasks that are submitted by time. Owns what people ask of them, and the one change in
//! which a schedule submits its task. Which are due, and what they do then, is the reconciler's.

mod admin;
mod fire;

pub use admin::{ScheduleError, ScheduleState, delete, get, pause, put_audited, run_now, set};
pub use fire::{fire, is_busy};
