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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueView {
    /// Its name; that of an API process ends in `.api`.
    pub name: String,
    /// Since when it is paused, and why; missing: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseView>,
    /// Tasks of all tenants that have not ended and were offered on it last, by state.
    pub tasks: BTreeMap<TaskStatus, u64>,
    /// Tasks that wait to be claimed: those that are submitted or dispatched.
    #[serde(default)]
    pub depth: u64,
    /// Since when the one of them has waited that waits for the longest time, in whole seconds; missing: none waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_seconds: Option<u64>,
    /// Tasks that came to wait on it in a minute, over the last five minutes at most, as the processes have counted
    /// that are alive.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub in_per_minute: f64,
    /// The same of tasks that wait on it no more: they were claimed, or ended without.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub out_per_minute: f64,
    /// After how many seconds none would wait, were it to go on like this; missing: none waits, or they do not become
    /// fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_in_seconds: Option<u64>,
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
