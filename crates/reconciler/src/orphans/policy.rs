//! Puts what is found before the user's policy, and holds its answer to what can be done.

use counterstep_kernel::ports::Listed;
use counterstep_steps::keys::{ObjectKey, is_archive_prefix};
use counterstep_steps::orphans::{Orphan, OrphanAction, OrphanPolicy, Why};
use std::time::Duration;

/// Of an object as it was listed, and what its key says.
pub(super) fn orphan(
    listed: &Listed,
    key: ObjectKey,
    task_type: Option<String>,
    age: Duration,
    why: Why,
) -> Orphan {
    Orphan {
        task_type,
        tenant: key.tenant,
        task: key.task,
        step: key.step,
        attempt: key.attempt,
        bucket: listed.bucket.clone(),
        key: listed.key.clone(),
        size_bytes: listed.size_bytes,
        age,
        half: listed.upload.is_some(),
        why,
    }
}

/// What the policy says, as far as it can be done.
pub(super) fn decided(policy: &dyn OrphanPolicy, orphan: &Orphan) -> OrphanAction {
    let decide = || policy.decide(orphan);
    // A policy is code of others: what it cannot decide stays.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(decide)) {
        Err(_) => {
            tracing::error!(task = %orphan.task, key = orphan.key, "the orphan policy panicked; the object stays");
            OrphanAction::Report
        }
        Ok(OrphanAction::Archive { prefix }) if !is_archive_prefix(&prefix) => {
            tracing::error!(
                prefix,
                key = orphan.key,
                "the orphan policy's prefix cannot be used; the object stays"
            );
            OrphanAction::Report
        }
        Ok(OrphanAction::Archive { .. }) if orphan.half => OrphanAction::Delete,
        Ok(action) => action,
    }
}
