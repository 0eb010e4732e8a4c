//! Object keys. Epoch and attempt stand in every key: a database fence cannot stop a paused process, or an upload
//! that hangs past its time limit, from overwriting a fixed one.

use counterstep_contracts::{Attempt, Epoch, TaskId, Tenant};

/// `t/{tenant}/{task}/`: everything that a task ever stored.
#[must_use]
pub fn task_prefix(tenant: &Tenant, task: TaskId) -> String {
    format!("t/{tenant}/{task}/")
}

/// `t/{tenant}/{task}/{step}/`: everything that any attempt of a step stored.
#[must_use]
pub fn step_prefix(tenant: &Tenant, task: TaskId, step: &str) -> String {
    format!("t/{tenant}/{task}/{step}/")
}

/// `t/{tenant}/{task}/{step}/e{epoch}.{attempt}/`: what one attempt stores.
#[must_use]
pub fn attempt_prefix(tenant: &Tenant, task: TaskId, step: &str, epoch: Epoch, attempt: Attempt) -> String {
    format!("t/{tenant}/{task}/{step}/e{epoch}.{attempt}/")
}

/// Whether a bucket name from a declaration is acceptable: 3 to 63 of `a-z 0-9 . -`, no dot at an end or in pairs.
#[must_use]
pub fn is_bucket_name(name: &str) -> bool {
    (3..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
        && !name.starts_with(['.', '-'])
        && !name.ends_with(['.', '-'])
        && !name.contains("..")
}
