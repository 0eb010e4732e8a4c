//! Which tasks a bulk operation that runs tasks again would refuse, and why: each is looked at as the operation will,
//! but for the copy of its files. Reads, and changes nothing.

use super::operation::BulkSpec;
use crate::audit::one_line;
use crate::client::{self, AgainError, SubmitError};
use crate::engine::Engine;
use crate::ports::StoreError;
use counterstep_contracts::TaskId;
use counterstep_contracts::bulk::{BulkRefused, RefusedFor};
use futures::{StreamExt, stream};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum number of tasks that are looked at, and how many at a time: the files of each are listed.
pub(super) const CHECKED: usize = 200;
const AT_ONCE: usize = 8;

/// Maximum number of reasons that are named.
const NAMED: usize = 20;

/// Which of these tasks would be refused.
///
/// # Errors
/// [`StoreError`].
pub(super) async fn refused(
    engine: &Engine,
    spec: &BulkSpec,
    tasks: &[TaskId],
) -> Result<BulkRefused, StoreError> {
    let checks = tasks.iter().copied();
    let checks = checks.map(|task| client::would_run_again(engine, task, spec.to_run_again()));
    let mut checks = stream::iter(checks).buffer_unordered(AT_ONCE);
    let mut reasons = BTreeMap::<String, u64>::new();
    while let Some(checked) = checks.next().await {
        match checked {
            // One that is deleted or goes on meanwhile is left alone.
            Ok(()) | Err(AgainError::Gone | AgainError::NotEnded(_)) => {}
            Err(AgainError::Submit(SubmitError::Store(error))) if error.may_pass() => {
                return Err(error);
            }
            Err(error) => *reasons.entry(reason(&error)).or_default() += 1,
        }
    }
    let reasons = reasons
        .into_iter()
        .map(|(reason, tasks)| RefusedFor { reason, tasks });
    let mut reasons: Vec<_> = reasons.collect();
    reasons.sort_by_key(|it| Reverse(it.tasks));
    reasons.truncate(NAMED);
    Ok(BulkRefused {
        tasks: tasks.len() as u64,
        reasons,
    })
}

/// The same for all tasks that it is for.
fn reason(error: &AgainError) -> String {
    let text = match error {
        AgainError::FilesGone { why, .. } => format!("a file of the task cannot be copied: {why}"),
        AgainError::ParentOpen { .. } => {
            "the task belongs to one that has not ended and may still undo it".to_owned()
        }
        other => other.to_string(),
    };
    one_line(&text)
}
