//! The port for what the processes of a cluster tell each other to spare the database a question.
//!
//! A hint is never an answer. What was remembered may be forgotten at any time, and a count may
//! start anew; the caller must be right in either case.

use async_trait::async_trait;
use std::fmt::Debug;
use std::time::Duration;

/// The service behind the hints could not answer. Do what would be done without it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the service for hints does not answer: {0}")]
pub struct HintError(pub String);

/// A memory that all processes share and that may be lost. Each call is atomic, and ends within the
/// adapter's own time limit. The three kinds of keys (remembered, counted, kept) do not meet.
#[async_trait]
pub trait Hints: Send + Sync + Debug {
    /// Whether other processes have the same memory. `false`: each process remembers for itself alone.
    fn is_shared(&self) -> bool {
        true
    }

    /// Whether it answers: for a readiness check.
    async fn check(&self) -> Result<(), HintError> {
        Ok(())
    }

    /// Whether a key was remembered. `true` only means "read the row first"; `false` only "do not
    /// bother to read".
    async fn seen(&self, key: &str) -> Result<bool, HintError>;

    /// Remembers a key for `ttl`, from the last time that it is said.
    async fn remember(&self, key: &str, ttl: Duration) -> Result<(), HintError>;

    /// Adds one to a counter and returns its value. The count starts with its first addition and
    /// ends `window` later, however many additions there were.
    async fn bump(&self, counter: &str, window: Duration) -> Result<u64, HintError>;

    /// The small state kept under a key.
    async fn get(&self, key: &str) -> Result<Option<String>, HintError>;

    /// How much longer the state under a key is kept. `None`: there is none, or the service cannot
    /// say.
    async fn left(&self, key: &str) -> Result<Option<Duration>, HintError> {
        let _ = key;
        Ok(None)
    }

    /// Keeps a small state for `ttl`, over whatever was there.
    async fn set(&self, key: &str, value: &str, ttl: Duration) -> Result<(), HintError>;

    /// Keeps a state for `ttl` if the one there is still `was` (`None`: there is none). Of several
    /// that try at once, one gets `true`. A `ttl` of zero: from then on there is none.
    async fn swap(
        &self,
        key: &str,
        was: Option<&str>,
        value: &str,
        ttl: Duration,
    ) -> Result<bool, HintError>;
}
