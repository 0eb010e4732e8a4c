//! Programs around the engine, as the documents and the examples show them.

#![expect(
    clippy::duplicate_mod,
    reason = "two examples have the same task types"
)]

mod book_seat;
mod embedded;
#[cfg(all(
    feature = "servers",
    feature = "tokio-postgres",
    feature = "diesel-async"
))]
mod transaction;
