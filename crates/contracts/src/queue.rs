//! Queues as people see them, pause them and resume them.

use crate::forms::{ACTOR, NOTE};
use crate::state::TaskStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Body of `POST /api/queues/{name}/pause` and `/resume`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueRequest {
    /// Reason, for the audit.
    #[schemars(regex(pattern = NOTE), length(min = 1, max = 4000))]
    pub note: String,
    /// Who decides, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ACTOR), length(min = 1, max = 100))]
    pub actor: Option<String>,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueView {
    /// Its name; that of an API process ends in `.api`.
    pub name: String,
    /// Since when it is paused, and why; missing: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseView>,
    /// Tasks of all tenants that have not ended and were offered on it last, by state.
    pub tasks: BTreeMap<TaskStatus, u64>,
}

/// A pause. Times are RFC 3339 in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PauseView {
    /// Since when.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
    /// Who has paused it.
    pub by: String,
    /// Reason, for the audit.
    pub note: String,
}
