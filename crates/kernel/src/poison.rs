//! Poison messages. What is kept of them is bounded here, whatever queue they came from.

use bytes::Bytes;
use counterstep_contracts::QueueName;

/// How much of a poisonous message is kept, in bytes.
pub const POISON_KEPT: usize = 64 * 1024;

/// A message as its queue has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageSource {
    /// Names the message in its queue: the same for each redelivery, another one for every other
    /// message.
    pub name: String,
    /// The subject, or the place, that it was found under.
    pub subject: String,
    /// Its bytes, all of them.
    pub payload: Bytes,
}

impl MessageSource {
    /// The message as poison.
    #[must_use]
    pub fn poison(&self, reason: String) -> Poison {
        Poison::new(
            self.name.clone(),
            self.subject.clone(),
            &self.payload,
            reason,
        )
    }
}

/// A message that this program cannot read, or that contradicts the row of its task. It is kept as
/// a row and then never delivered again: left in the queue, it would be redelivered without end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poison {
    /// Names the message in its queue: the same for each redelivery, another one for every other
    /// message.
    pub source: String,
    /// The subject, or the place, that it was found under.
    pub subject: String,
    /// The beginning of its bytes, at most [`POISON_KEPT`].
    pub payload: Bytes,
    /// How many there were.
    pub size_bytes: u64,
    /// Why it is not acted on.
    pub reason: String,
}

impl Poison {
    /// Of a message's bytes, all of them.
    #[must_use]
    pub fn new(source: String, subject: String, payload: &Bytes, reason: String) -> Self {
        let kept = payload.slice(..payload.len().min(POISON_KEPT));
        Self {
            source,
            subject,
            payload: kept,
            size_bytes: payload.len() as u64,
            reason,
        }
    }
}

/// The row of a poison message: what arrived, for a person to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoisonRow {
    /// Where it came from.
    pub queue: QueueName,
    /// What, and why it is poison.
    pub poison: Poison,
}
