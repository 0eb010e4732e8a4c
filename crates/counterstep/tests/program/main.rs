//! Programs around the engine, as the documents and the examples show them.

#![expect(
    clippy::duplicate_mod,
    reason = "two examples have the same task types"
)]

mod book_seat;
mod embedded;
