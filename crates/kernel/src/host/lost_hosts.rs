//! What ran on the hosts that a task has lost, read from its audit: the failure of a task that is
//! given up because of them names the steps. Decides nothing.

use crate::ports::Store;
use crate::record::{AuditEntry, AuditRow, StepRow, TaskRecord};
use crate::task::TaskType;
use serde::Serialize;
use std::fmt::{self, Display};

/// Maximum number of losses that are named, the last ones.
const NAMED: usize = 20;

/// A host that was lost while it had the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The owner of the lease that ran out.
    pub host: String,
    /// The steps whose attempt, or whose undo's, was under way. Empty: it was between two.
    pub steps: Vec<String>,
}

impl Loss {
    /// From the entries of the change that counts it.
    #[must_use]
    pub(crate) fn of<'a>(
        host: &str,
        entries: impl IntoIterator<Item = &'a AuditEntry>,
        rows: &[StepRow],
    ) -> Self {
        let in_doubt =
            |entry: &&AuditEntry| matches!(entry.event.as_str(), "step_in_doubt" | "undo_in_doubt");
        let name = |entry: &AuditEntry| {
            rows.iter()
                .find(|row| Some(row.no) == entry.step)
                .map(|row| row.name.clone())
        };
        Self {
            host: host.to_owned(),
            steps: entries
                .into_iter()
                .filter(in_doubt)
                .filter_map(name)
                .collect(),
        }
    }
}

impl Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<_> = self.steps.iter().map(|step| format!("`{step}`")).collect();
        let steps = if steps.is_empty() {
            "no step".to_owned()
        } else {
            steps.join(" and ")
        };
        write!(f, "{steps} on {}", self.host)
    }
}

/// The consecutive losses before the one that the lease shows; only where that one may have the
/// task given up.
pub async fn earlier_losses(store: &Store, task_type: &TaskType, record: &TaskRecord) -> Vec<Loss> {
    let row = &record.task;
    if !record.lease_has_expired() || row.recovery_attempts < task_type.decl.max_recoveries {
        return Vec::new();
    }
    match store.history(row.id).await {
        Ok(history) => last(&history.audit, &record.steps, row.recovery_attempts),
        Err(error) => {
            tracing::warn!(task = %row.id, %error, "the failure will not name the earlier losses");
            Vec::new()
        }
    }
}

/// The last `count` losses of a task, the oldest first.
#[must_use]
pub(crate) fn last(audit: &[AuditRow], rows: &[StepRow], count: u32) -> Vec<Loss> {
    let count = usize::try_from(count).unwrap_or(NAMED).min(NAMED);
    let changes = audit.chunk_by(|one, next| one.change_id == next.change_id);
    let mut losses: Vec<_> = changes.filter_map(|change| loss(change, rows)).collect();
    losses.split_off(losses.len().saturating_sub(count))
}

/// Counted by a claim or a take-back, which names the owner of the lease that ran out.
fn loss(change: &[AuditRow], rows: &[StepRow]) -> Option<Loss> {
    let entries = || change.iter().map(|row| &row.entry);
    let host = entries().find_map(|entry| entry.details["lost_by"].as_str())?;
    Some(Loss::of(host, entries(), rows))
}

/// All of them in one text.
#[must_use]
pub(crate) fn text(losses: &[Loss]) -> String {
    losses
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}
