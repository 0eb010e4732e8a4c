//! What people and their programs may ask of a running installation, beside HTTP.
//!
//! Owns who asks, and which error of the engine is which refusal. Must not know HTTP: the API gives refusals their
//! responses.

mod caller;
mod refused;
mod refused_of_tasks;
mod tasks;

pub use caller::Caller;
pub use refused::{
    Refused, invalid, log_line, no_such_task, no_such_type, unavailable, unknown_type,
};
pub use tasks::{is_of, load, unreadable};
