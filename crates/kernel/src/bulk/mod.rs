//! Bulk operations: one decision of a person for many tasks. An operation is a document with a due time;
//! API processes execute it slice by slice, and what it decides of a task is a change of that task like any
//! other. Must not know HTTP.

mod admin;
mod decide;
mod decided;
mod error;
mod execute;
mod operation;
mod outcome;
mod pacing;
mod preview;
mod refused;
mod what_if;

pub use admin::{add_last_decisions, list, pause, resume, show, start, stop};
pub use decided::tasks;
pub use error::BulkError;
pub use execute::serve;
pub use operation::BulkSpec;
pub use preview::preview;
