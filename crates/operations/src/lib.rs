//! What people and their programs may ask of a running installation: a function for each operation that
//! `counterstep_contracts::operation` declares.
//!
//! Owns who asks, and which error of the engine is which refusal. Must not know HTTP: the API reads requests, and gives
//! answers and refusals their responses.

mod alerts;
mod breakers;
mod bulk;
mod caller;
pub mod cursor;
mod cx;
mod dead_letters;
mod decisions;
pub mod filters;
mod gates;
mod keys;
mod limits;
mod open_effects;
mod poison;
mod queues;
mod refused;
mod refused_of_tasks;
mod run;
mod schedules;
mod search;
mod suggestions;
pub mod task_bodies;
mod task_lists;
mod task_types;
mod task_views;
mod tasks;
mod views;
mod webhooks;
mod workers;

pub use caller::Caller;
pub use cx::{Cx, Process, note};
pub use decisions::edit;
pub use keys::key_view;
pub(crate) use refused::unknown_type;
pub use refused::{Refused, invalid, log_line, no_such_task, no_such_type, unavailable};
pub use run::{Answer, Run, Running, Targeted, read_input};
pub use tasks::{load, unreadable};

macro_rules! running {
    ($($it:path),+ $(,)?) => {
        /// All operations. One that is declared and has no function does not compile.
        pub const ALL: &[Running] = &[$(Running::of::<$it>()),+];
    };
}
counterstep_contracts::operations!(running);
