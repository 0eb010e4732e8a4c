//! Which share of a limit an attempt needs: the whole, that of its tenant, or that of a label's value.

use crate::record::TaskRow;
use counterstep_contracts::{Limit, LimitScope};
use std::fmt;
use std::sync::Arc;

/// A limit, and what has it for itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyedLimit<'a> {
    pub(crate) key: &'a LimitKey,
    pub(crate) limit: &'a Limit,
}

/// What has a limit for itself. It orders and names the record that all processes share.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LimitKey {
    /// The limit's name.
    pub(crate) limit: Arc<str>,
    /// The name of the record: the limit's own, or behind it the tenant and the label's value.
    record: Arc<str>,
}

impl LimitKey {
    /// Of a process alone: no other one shares it, and it has no record.
    pub(crate) fn of_process() -> Self {
        Self::default()
    }

    /// Whether it is one of a process alone. The record of any other has a name.
    pub(super) fn is_of_process(&self) -> bool {
        self.record.is_empty()
    }

    /// What the attempts of this task need.
    pub(crate) fn of(limit: &Limit, task: &TaskRow) -> Self {
        // A name has no slash, and a tenant neither: no record is taken for another one.
        let record = match limit.scope {
            LimitScope::All => limit.name.to_owned(),
            LimitScope::Tenant => format!("{}/{}", limit.name, task.tenant),
            LimitScope::Label(label) => format!(
                "{}/{}/{}",
                limit.name,
                task.tenant,
                task.labels.get(label).unwrap_or_default()
            ),
        };
        Self {
            limit: limit.name.into(),
            record: record.into(),
        }
    }

    /// The name of the record.
    pub(crate) fn record(&self) -> &str {
        &self.record
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.record)
    }
}
