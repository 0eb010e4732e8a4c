//! Lines that a step logs, kept with its task. Must not know where they are kept.

use crate::error::bounded_line;
use counterstep_contracts::log::LogLevel;
use std::fmt::{Debug, Display};
use std::sync::Arc;

/// The longest message of a line, in bytes; the rest is cut.
const MESSAGE_LIMIT: usize = 2_000;

/// Takes what one attempt logs.
pub trait LogSink: Send + Sync + Debug {
    /// A line. Never waits and never fails; `message` is one line of at most 2,000 bytes.
    fn line(&self, level: LogLevel, message: String);
}

/// Where an attempt logs. Cheap to clone, for code on other threads; what is logged after the attempt
/// has ended is dropped.
#[derive(Debug, Clone, Default)]
pub struct TaskLog(Option<Arc<dyn LogSink>>);

impl TaskLog {
    /// One that hands on what is logged.
    #[must_use]
    pub fn to(sink: Arc<dyn LogSink>) -> Self {
        Self(Some(sink))
    }

    /// Adds a line. Never waits and never fails.
    pub fn write(&self, level: LogLevel, message: impl Display) {
        if let Some(sink) = &self.0 {
            sink.line(level, bounded_line(message, MESSAGE_LIMIT));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_of_a_bounded_length() {
        let odd = bounded_line("a\nb\u{1b}[2J\u{0}c", MESSAGE_LIMIT);
        assert_eq!(odd, "a\\nb\\u{1b}[2J\\u{0}c");
        let long = bounded_line("ä".repeat(10_000), MESSAGE_LIMIT);
        assert!(
            long.len() <= MESSAGE_LIMIT && long.ends_with('ä'),
            "{}",
            long.len()
        );
    }
}
