//! How long the announcement of a change waits for the queue.

/// How long an announcement waits for the queue. Either way the change is durable: hosts look for tasks, and the relay publishes
/// the events of a message that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueWait {
    /// As long as a queue may take to answer: a client's task is not left to the polls of hosts as easily.
    Full,
    /// For work that waits for the database alone, and for one task of many: a queue whose server hangs
    /// holds it up once in a while.
    Brief,
}
