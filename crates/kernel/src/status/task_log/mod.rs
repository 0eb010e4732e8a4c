//! What steps log, kept with their task. An attempt writes into the memory of its turn, which never
//! waits; beside the work, and before each outcome is committed, the turn writes rows of lines.
//!
//! A row is no change of the task: nothing is decided by it, and no revision counts it. It has a name
//! of its own, so that each turn that has it can write it again.

mod page;
mod turn_log;

pub use page::{LogCursor, NoCursor, read};
pub(crate) use turn_log::{AttemptLog, TurnLog};
