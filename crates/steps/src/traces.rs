//! The mark of spans and events that are for traces. Must not make one.

/// The target of all of them, and of nothing else. They are at the level `debug`, below what a log
/// shows, and cost nothing where no subscriber of `tracing` takes them. None holds what a client or
/// a step has handed in: names, ids, counts and classes alone.
pub const TRACES: &str = "counterstep::traces";
