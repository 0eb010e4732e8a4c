//! A task type as it is listed: its declaration, and whether it takes submissions.

use crate::TaskDecl;
use crate::disable::SwitchView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A task type as it is listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskTypeView {
    /// As it was declared, and what the settings change.
    #[serde(flatten)]
    #[schemars(with = "TaskDecl")]
    pub declaration: Value,
    /// The address that takes its requests.
    pub submit_to: String,
    /// Digest of what a task in flight depends on.
    pub definition_hash: String,
    /// Whether it takes submissions.
    pub switch: SwitchView,
    /// JSON schemas of the bodies of the signals that its steps wait for, by the name of the step; without those of types that have
    /// none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub signals: BTreeMap<String, Value>,
}
