//! Which tasks people mean when they mean many: read page by page, so that memory stays flat however many
//! there are. Must not change a task.

use super::groups;
use crate::ports::{FailureFilter, Store, StoreError, TaskLine, TaskPage, TaskQuery, first_id_at};
use crate::record::DbTime;
use counterstep_contracts::{Labels, TaskId, TaskStatus, Tenant};
use serde::{Deserialize, Serialize};

/// Maximum number of tasks per page.
const PAGE: u32 = 1_000;

/// Tasks in some states that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// Of this type only.
    pub task_type: Option<String>,
    /// In these states.
    pub statuses: Vec<TaskStatus>,
    /// With all of these labels.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// With a failure like this.
    #[serde(default)]
    pub failure: FailureFilter,
    /// Of this group.
    #[serde(default)]
    pub group: Option<String>,
    /// Submitted not before this time, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Submitted before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// A page of a walk.
#[derive(Debug)]
pub(crate) struct Walked {
    /// Those that fit, the newest first.
    pub(crate) lines: Vec<TaskLine>,
    /// Tasks that were looked at.
    pub(crate) looked_at: u64,
    /// The next page is behind this one; `None`: it was the last.
    pub(crate) next: Option<TaskId>,
}

impl Selection {
    /// All tasks of a tenant in these states.
    #[must_use]
    pub fn of(tenant: Tenant, statuses: Vec<TaskStatus>) -> Self {
        Self {
            tenant,
            task_type: None,
            statuses,
            labels: Labels::new(),
            failure: FailureFilter::default(),
            group: None,
            since: None,
            until: None,
        }
    }

    /// A page, the newest first, behind this task. Each task is on one page at most, also where its state
    /// changes meanwhile.
    pub(crate) async fn page(
        &self,
        store: &Store,
        before: Option<TaskId>,
    ) -> Result<Walked, StoreError> {
        self.page_of(store, &self.query(before)).await
    }

    /// The same of all tenants, for those who run the installation.
    pub(crate) async fn page_of_all_tenants(
        &self,
        store: &Store,
        before: Option<TaskId>,
    ) -> Result<Walked, StoreError> {
        let query = TaskQuery {
            tenant: None,
            ..self.query(before)
        };
        self.page_of(store, &query).await
    }

    async fn page_of(&self, store: &Store, query: &TaskQuery) -> Result<Walked, StoreError> {
        let TaskPage {
            mut lines,
            looked_to,
        } = store.list(query).await?;
        let is_full = lines.len() >= PAGE as usize;
        let last = lines.last().filter(|_| is_full).map(|line| line.task);
        let next = last.or(looked_to);
        let looked_at = lines.len() as u64;
        lines.retain(|line| self.fits(line));
        Ok(Walked {
            lines,
            looked_at,
            next,
        })
    }

    fn query(&self, before: Option<TaskId>) -> TaskQuery {
        let until = self.until.map(first_id_at);
        TaskQuery {
            tenant: Some(self.tenant.clone()),
            task_type: self.task_type.clone(),
            // In one read: a task that changes from one state to another meanwhile is in one of them.
            statuses: self.statuses.clone(),
            labels: self.labels.clone(),
            from: self.since.map(first_id_at),
            before: before.into_iter().chain(until).min(),
            limit: PAGE,
            ..TaskQuery::default()
        }
    }

    /// Whether a task of its tenant is one of them.
    pub(crate) fn has(&self, line: &TaskLine) -> bool {
        self.query(None).fits(line) && self.fits(line)
    }

    fn fits(&self, line: &TaskLine) -> bool {
        let failure = line.failure.as_ref();
        let is_like = self.failure.is_empty() || self.failure.fits(failure);
        let group = self.group.as_ref();
        is_like && group.is_none_or(|group| is_of_group(line, group))
    }

    /// Whether a task was as it is at this time; one that has not ended and is not parked, whether it was there.
    pub(crate) fn is_of(line: &TaskLine, at: DbTime) -> bool {
        if line.status.is_at_rest() {
            line.updated_at <= at
        } else {
            line.created_at <= at
        }
    }
}

/// Also by the id that an older program gave the group: it may have started an operation for it.
fn is_of_group(line: &TaskLine, group: &str) -> bool {
    let failure = line.failure.as_ref();
    let of = [groups::group_of, groups::former_group_of];
    of.iter().any(|of| of(&line.task_type, failure) == group)
}
