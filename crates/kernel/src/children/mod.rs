//! Tasks that steps of other tasks submit: their first changes, what is read of them, how they are
//! stopped and undone with their parent, and how they wake it. Must not decide what is next for the
//! parent: the planner does.

mod look;
mod stop;
mod submission;
mod wake;

pub(crate) use look::look;
#[cfg(test)]
pub(crate) use stop::stop_one;
pub(crate) use stop::{Stop, stop};
pub(crate) use submission::submission;
pub use wake::{wake, was_not_woken};
pub(crate) use wake::{wake_again, wake_parent};
