//! How far a running attempt says it is: a hint for people who look on, and never state.

use crate::error::bounded_line;
use std::fmt::{Debug, Display};
use std::sync::Arc;

/// Maximum bytes of a message.
const MESSAGE_LIMIT: usize = 200;

/// Takes what one attempt says of its progress.
pub trait ProgressSink: Send + Sync + Debug {
    /// `done` out of `total`, with a message of one line. Never waits and never fails.
    fn tell(&self, done: u64, total: u64, message: Option<String>);

    /// The attempt says that it is alive. Never waits and never fails.
    fn beat(&self) {}

    /// The attempt is over: what is said from now on is dropped.
    fn end(&self);
}

/// Where an attempt says how far it is. Cheap to clone, for code on other threads; what is said
/// after the attempt has ended is dropped.
#[derive(Debug, Clone, Default)]
pub struct Meter(Option<Arc<dyn ProgressSink>>);

impl Meter {
    /// One that hands on what is said.
    #[must_use]
    pub fn to(sink: Arc<dyn ProgressSink>) -> Self {
        Self(Some(sink))
    }

    /// `done` out of `total`, in units of the step's own; `total` is 0 where it is not known. Never
    /// waits and never fails; only the latest counts, so say it as often as you like.
    pub fn tell(&self, done: u64, total: u64) {
        if let Some(sink) = &self.0 {
            sink.tell(done, total, None);
        }
    }

    /// The same, with a message for people: what the attempt is at. One line of at most 200 bytes:
    /// control characters are written out, and the rest is cut.
    pub fn tell_with(&self, done: u64, total: u64, message: impl Display) {
        if let Some(sink) = &self.0 {
            sink.tell(done, total, Some(bounded_line(message, MESSAGE_LIMIT)));
        }
    }

    /// What another process has told: as it stands.
    pub fn relay(&self, done: u64, total: u64, message: Option<String>) {
        if let Some(sink) = &self.0 {
            sink.tell(done, total, message);
        }
    }

    /// The attempt is alive: see [`heartbeat`](crate::StepContext::heartbeat).
    pub fn beat(&self) {
        if let Some(sink) = &self.0 {
            sink.beat();
        }
    }

    /// The attempt is over: its row says the rest.
    pub fn end(&self) {
        if let Some(sink) = &self.0 {
            sink.end();
        }
    }
}
