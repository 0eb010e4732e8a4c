//! How the tasks stand that a task has submitted, for the answer about that task. Must not list them.

use crate::app_state::Api;
use counterstep_kernel::ports::{ChildCount, StoreError};
use counterstep_kernel::record::TaskRecord;

/// How the tasks stand that a task has submitted. Its rows say whether there are any.
pub(super) async fn counts(api: &Api, record: &TaskRecord) -> Result<Vec<ChildCount>, StoreError> {
    let mut steps = record.steps.iter();
    if steps.any(|step| step.children.is_some_and(|children| children.started > 0)) {
        api.engine.ports.store.child_counts(record.task.id).await
    } else {
        Ok(Vec::new())
    }
}
