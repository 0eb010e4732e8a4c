//! Task types as rows: only those that were ever disabled have one.

use crate::record::DbTime;
use counterstep_contracts::{Rev, TaskId, Tenant};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Whether a task type takes submissions. It is the body of its document, but for what stands beside that.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeRow {
    /// Its declared name.
    #[serde(skip)]
    pub name: String,
    /// `None`: it takes them.
    pub disabled: Option<Disabled>,
    /// Why it was disabled, or enabled last.
    pub reason: String,
    /// Who did it.
    pub by: String,
    /// Failures before this do not count any more.
    pub counts_from: Option<DbTime>,
    /// Grows with each change.
    #[serde(skip)]
    pub rev: Rev,
}

/// Since when a task type takes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disabled {
    /// Since when.
    pub since: DbTime,
    /// From then on the next submission is taken as a probe; `None`: a person has to enable it.
    pub probe_from: Option<DbTime>,
    /// The probe that is under way, and since when.
    pub probe: Option<(TaskId, DbTime)>,
}

/// Rows as they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeRows {
    /// The database's clock when they were read.
    pub now: DbTime,
    /// By name.
    pub rows: Vec<TypeRow>,
}

/// Which waiting tasks to count: those that were accepted or dispatched, and that no host has claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingQuery {
    /// Of this tenant ...
    pub tenant: Tenant,
    /// ... and of this type; `None`: of all.
    pub task_type: Option<String>,
    /// More need not be counted.
    pub at_most: u32,
}

/// Which failures to count: tasks that ended as Failed, and tasks that are parked, since the last
/// one that completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureQuery {
    /// Of this tenant ...
    pub tenant: Tenant,
    /// ... and this type.
    pub task_type: String,
    /// With a failure of one of these classes.
    pub classes: &'static [&'static str],
    /// That failed in this time before now ...
    pub within: Duration,
    /// ... and after this.
    pub counts_from: Option<DbTime>,
    /// More need not be counted.
    pub at_most: u32,
}
