//! What holds tasks back at the moment because a person, or failures, have shut it. Times are RFC 3339 in UTC.

use crate::state::text_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

text_enum!(
    /// What may be shut.
    GateKind {
        /// A task type takes no submissions.
        TaskType = "task-type",
        /// No task of a queue is claimed.
        Queue = "queue",
        /// The processes of a machine take no task.
        Workers = "workers",
        /// A limit holds as a person has set it.
        Limit = "limit",
        /// The breaker of a dependency is open, or lets one attempt through.
        Breaker = "breaker",
    }
);

/// Something that is shut, or set by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GateView {
    /// What it is.
    pub gate: GateKind,
    /// Its name; of processes their role and machine, as `worker:w1`.
    pub name: String,
    /// Since when; missing: it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub since: Option<String>,
    /// Who has shut it; missing: it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The command that opens it.
    pub opens: String,
}
