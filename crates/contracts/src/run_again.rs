//! Bodies of the route that runs a task again.

use crate::forms::{ACTOR, NOTE};
use crate::ids::TaskId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Body of `POST /api/tasks/{id}/run-again`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunAgainRequest {
    /// The step from which it runs: the outputs of the steps before it are kept. Missing: from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Another request. It must fit the type and have the same files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Value>,
    /// Fields of the request that are to be others, in place of `request`: a JSON merge patch of RFC 7396.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Value>,
    /// Why, for the audit.
    #[schemars(regex(pattern = NOTE), length(min = 1, max = 4000))]
    pub note: String,
    /// Who, by the caller's own words: they stand behind the note. The audit's actor is the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ACTOR), length(min = 1, max = 100))]
    pub actor: Option<String>,
}

/// The task that another one runs again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PredecessorView {
    /// Its id. Retention may have deleted it.
    pub task_id: TaskId,
    /// The step from which it runs again; missing: from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}
