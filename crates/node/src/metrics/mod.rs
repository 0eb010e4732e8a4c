//! What a process counts of its own work, and the page that shows it. Must not count what is under way
//! in the whole installation: the database knows that.

mod breakers;
mod database;
mod ended;
mod figures;
mod format;
mod histogram;
mod listener;
mod probes;
mod spool;

pub use breakers::ProcessPage;
pub use figures::Metrics;
pub use format::{Format, OPEN_METRICS, TEXT};
pub use listener::{Source, beside, bind, serve};
pub use probes::Probes;

/// The name in metrics of a label of tasks: `label_` and its own, with `_` for `.` and `-`.
#[must_use]
pub fn label_key(name: &str) -> String {
    format!("label_{}", name.replace(['.', '-'], "_"))
}
