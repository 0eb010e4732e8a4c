//! Parked tasks in numbers: which of them have one cause, and which ones a person means.

mod first_program;
mod groups;
mod mask;
pub mod poison;
pub(crate) mod poison_delivery;
pub mod quarantine;
mod selection;

pub use first_program::add_first_programs;
pub(crate) use groups::{Counter, GroupKey, LARGEST, MOST_LOOKED_AT};
pub use groups::{group_of, groups, longest_parked};
pub use selection::Selection;
