//! Lines that a step logs, kept with its task. Must not know where they are kept.

use crate::error::{one_line, storable};
use counterstep_contracts::log::LogLevel;
use std::fmt::{self, Debug, Display, Write};
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
            sink.line(level, of(message));
        }
    }
}

/// A message as it is kept: one line, with control characters written out.
fn of(message: impl Display) -> String {
    let mut text = Bounded(String::new());
    // An error only says that there is more than is kept.
    let _ = write!(text, "{message}");
    storable(&one_line(&text.0), MESSAGE_LIMIT)
}

/// Stops a message that is far too long while it is written.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() > MESSAGE_LIMIT {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_of_a_bounded_length() {
        let odd = of("a\nb\u{1b}[2J\u{0}c");
        assert_eq!(odd, "a\\nb\\u{1b}[2J\\u{0}c");
        let long = of("ä".repeat(10_000));
        assert!(
            long.len() <= MESSAGE_LIMIT && long.ends_with('ä'),
            "{}",
            long.len()
        );
    }
}
