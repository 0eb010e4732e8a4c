//! Schedules as a program declares them, and when one is due: pure functions of its words and a
//! time. What fires them belongs to the engine.

mod cron;
mod declared;
mod next_time;

pub use cron::{Cron, CronError};
pub use declared::{Schedule, ScheduleMistake, check};
pub use next_time::{Stored, When, read, read_stored};
