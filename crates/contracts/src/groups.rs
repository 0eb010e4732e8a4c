//! Bodies of the routes for parked tasks by cause. Times are RFC 3339 in UTC.

use crate::cause::Cause;
use crate::ids::TaskId;
use crate::pace::PastDecision;
use crate::state::TaskStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Parked tasks of one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetterGroup {
    /// The same for the same cause at any time: a hash of type, cause and masked text.
    pub id: String,
    /// Their type's declared name.
    pub task_type: String,
    /// The step that gave up, or whose undo did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The class of their failure, where they have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What blocks them now.
    #[serde(default)]
    pub cause: Cause,
    /// What the text of their failure has beside it, with `#` in place of ids, numbers and times.
    pub text: String,
    /// How many there are.
    pub count: u64,
    /// How many of them are in each state. A state that none is in is left out.
    pub by_status: BTreeMap<TaskStatus, u64>,
    /// The first of their last changes.
    #[schemars(extend("format" = "date-time"))]
    pub first_at: String,
    /// The last of their last changes.
    #[schemars(extend("format" = "date-time"))]
    pub last_at: String,
    /// The task of `first_at`; missing in answers of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<TaskId>,
    /// The version of the program that ran the last attempt of that task, of the 20 largest groups. Missing: it has none, the
    /// worker registry does not have the process any more, the task has a long past, or the caller may not see processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_program: Option<String>,
    /// The last submitted one of them.
    pub example: TaskId,
    /// What was last decided about tasks of this cause as one operation, of the 20 largest groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_decision: Option<PastDecision>,
}

/// Answer of `GET /api/dead-letters/groups`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetterGroups {
    /// The largest first.
    pub groups: Vec<DeadLetterGroup>,
    /// Tasks that are counted in them.
    pub counted: u64,
    /// Tasks of further groups, where there are more groups than are shown.
    pub others: u64,
    /// Whether all parked tasks were looked at. If not: the last submitted ones were.
    pub complete: bool,
}
