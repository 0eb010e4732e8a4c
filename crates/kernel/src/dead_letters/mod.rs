//! Parked tasks in numbers: which of them have one cause, and which ones a person means.

mod groups;
mod mask;
mod selection;

pub(crate) use groups::{MOST_LOOKED_AT, cause_of};
pub use groups::{group_of, groups};
pub use selection::Selection;
