//! Bulk operations: one decision of a person for many tasks. An operation is a document with a due time;
//! API processes execute it slice by slice, and what it decides of a task is a change of that task like any
//! other. Must not know HTTP.

mod admin;
mod decide;
mod execute;
mod operation;
mod preview;
mod refused;
mod what_if;

pub use admin::{BulkError, list, show, start, stop};
pub use execute::serve;
pub use operation::BulkSpec;
pub use preview::preview;
