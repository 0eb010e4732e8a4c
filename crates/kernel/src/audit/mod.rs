//! The chain of a task's journal: how each row is bound to all that came before it; and
//! [`one_line`], by which what stands in a row is printed. The check of chains is the reconciler's.

mod link;

pub use link::{ContentHash, EntryHash, Facts, link, origin, seal};

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
