//! Schedules as rows, and the queries for them.

use super::documents::DuePlace;
use crate::record::DbTime;
use counterstep_contracts::{Rev, ScheduleOrigin, ScheduleSpec, TaskId, Tenant};
use serde::{Deserialize, Serialize};

/// A schedule. It is the body of its document, but for what stands beside that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleRow {
    /// Tenant that owns it.
    #[serde(skip)]
    pub tenant: Tenant,
    /// Its name; unique within its tenant.
    #[serde(skip)]
    pub name: String,
    /// Where it comes from.
    pub origin: ScheduleOrigin,
    /// What it submits, and when.
    pub spec: ScheduleSpec,
    /// Whether it is paused. While it is, its next due time stays as it was at the pause.
    pub paused: bool,
    /// Its next due time; `None`: none will come.
    pub next_due_at: Option<DbTime>,
    /// The due time that fired last.
    pub last_due_at: Option<DbTime>,
    /// When it fired last, by a due time or by hand: by the database's clock when it was read for
    /// that.
    pub last_fired_at: Option<DbTime>,
    /// The task that it submitted last.
    pub last_task: Option<TaskId>,
    /// Grows with each change and each firing.
    #[serde(skip)]
    pub rev: Rev,
    /// Made: by the database's clock when it was looked for.
    pub created_at: DbTime,
    /// Last change, or last firing; the store writes it.
    #[serde(skip)]
    pub updated_at: DbTime,
}

/// Which schedules to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleQuery {
    /// Those that are due and not paused, the longest due first.
    Due {
        /// Of these task types: the others are left to programs that know them.
        types: Vec<String>,
        /// Of those from code only these: the others are left to programs that declare them.
        declared: Vec<String>,
        /// Behind this one: a page that begins where another one ended.
        after: Option<DuePlace>,
        /// Maximum number of them.
        limit: u32,
    },
    /// Those of these names.
    Named {
        /// Tenant that owns it.
        tenant: Tenant,
        /// Their names.
        names: Vec<String>,
    },
    /// A page, by name.
    Page {
        /// Tenant that owns it.
        tenant: Tenant,
        /// Behind this name.
        after: Option<String>,
        /// Maximum number of them.
        limit: u32,
    },
}

/// Schedules as they were read.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedules {
    /// The database's clock when they were read.
    pub now: DbTime,
    /// In the order that was asked for.
    pub rows: Vec<ScheduleRow>,
    /// Of [`ScheduleQuery::Due`]: the last one that was read, also where it is not in `rows`,
    /// unless there are no more. `None`: there are no more.
    pub last: Option<DuePlace>,
}
