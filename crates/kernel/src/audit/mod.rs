//! The chain of a task's journal: how each row is bound to all that came before it, and the walk that says
//! whether it is whole; and [`one_line`], by which what stands in a row is printed. The check of all chains,
//! and what is wrong with one, are the reconciler's.

pub mod admin_audit;
mod link;
mod walk;

pub use link::{ContentHash, EntryHash, Facts, link, origin, seal};
pub use walk::{EncryptedFrom, Ends, Read, Walk, data_is_whole, read};

/// A text with its control characters written out: what stands in a row may be anything, and a
/// terminal obeys such characters.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut line, sign| {
            if sign.is_control() {
                line.extend(sign.escape_debug());
            } else {
                line.push(sign);
            }
            line
        })
}
