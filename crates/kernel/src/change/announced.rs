//! How a change is announced.

/// How a change is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announce {
    /// The queue has the time that it takes to answer.
    Whole,
    /// Of work that waits for the database alone, and of one task of many: a queue whose server hangs
    /// holds it up once in a while.
    Briefly,
}
