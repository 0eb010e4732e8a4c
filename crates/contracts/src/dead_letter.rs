//! Bodies of the routes that show one dead letter, and messages that no host can read. Times are RFC 3339 in UTC.

use crate::http::{AttemptView, StepView};
use crate::operator::DeadLetter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A parked task with what a person needs to decide: answer of `GET /api/dead-letters/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetterView {
    /// As the list shows it.
    #[serde(flatten)]
    pub letter: DeadLetter,
    /// The id of its group: parked tasks of the same cause.
    pub group: String,
    /// The trace id of its submission, where it came with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The process that ran its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// What its steps are given; `null` where it was erased.
    pub request: Value,
    /// What they were given before an operator changed it, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_requests: Vec<Value>,
    /// How far it has come, in order.
    pub steps: Vec<StepView>,
    /// Its attempts with their errors, in the order of their start.
    pub attempts: Vec<AttemptView>,
}

/// A message that no host can read. It is kept, and is not delivered again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoisonView {
    /// Id of the dead letter.
    pub id: String,
    /// The queue that it came from.
    pub queue: String,
    /// The subject that it was found under.
    pub subject: String,
    /// Names the message in its queue.
    pub source: String,
    /// Why it is not acted on.
    pub reason: String,
    /// Its bytes; of a long one the first 64 KiB. What is no UTF-8 is replaced.
    pub payload: String,
    /// How many bytes there were.
    pub size_bytes: u64,
    /// When it was kept.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
}

/// Answer of `GET /api/poison-messages`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoisonMessages {
    /// The last kept first, at most 200.
    pub items: Vec<PoisonView>,
}
