//! Saved views of the list of tasks: a search by a name, shared by all who see the tasks of a tenant.

use crate::forms::WITHOUT_CONTROLS;
use crate::search::LONGEST_SEARCH;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of saved views of a tenant.
pub const MOST_VIEWS: u32 = 50;

/// What is saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ViewSpec {
    /// The search, as `GET /api/tasks?q=` takes it. It names no other view.
    #[schemars(length(min = 1, max = LONGEST_SEARCH), regex(pattern = WITHOUT_CONTROLS))]
    pub q: String,
    /// The columns that the page shows, as `labels,submitted`; missing: those that it shows anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[a-z0-9_.,-]{1,200}$"))]
    pub columns: Option<String>,
}

/// A saved view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedView {
    /// Its name, as `view:NAME` has it.
    pub name: String,
    /// The search.
    pub q: String,
    /// The columns that the page shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<String>,
    /// Who has saved it last.
    pub by: String,
    /// When.
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
}
