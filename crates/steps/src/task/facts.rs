//! What a step sees of its task beside its inputs. Data: the engine reads it from the task's row.

use crate::times::DbTime;
use counterstep_contracts::Labels;
use serde::{Deserialize, Serialize};

/// What is known of a task when code of it runs. Its id and tenant stand in the
/// [`Execution`](crate::Execution).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFacts {
    /// Declared name of its type.
    pub task_type: String,
    /// When it was submitted; `None`: it is not accepted yet.
    pub submitted_at: Option<DbTime>,
    /// After this no forward step starts; `None`: there is no such time, or it is not accepted yet.
    pub deadline_at: Option<DbTime>,
    /// The client's `Idempotency-Key`.
    pub client_key: Option<String>,
    /// By which the task is found.
    pub labels: Labels,
    /// W3C trace context: of the submission, or of the attempt, where that has a span of its own.
    pub traceparent: Option<String>,
}

impl TaskFacts {
    /// Its trace id: 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> Option<&str> {
        trace_id(self.traceparent.as_deref()?)
    }
}

/// The trace id of a W3C `traceparent`: 32 hexadecimal digits.
#[must_use]
pub fn trace_id(traceparent: &str) -> Option<&str> {
    traceparent.split('-').nth(1)
}
