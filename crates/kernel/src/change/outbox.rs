//! What a process remembers of its outbox: which events it has published, and whether the queue
//! hangs. All of it may be lost with the process.

use counterstep_contracts::ChangeId;
use parking_lot::Mutex;
use std::time::Duration;

/// Maximum number of changes of one write of the store.
const TOGETHER: usize = 64;

/// How long no brief announcement is tried at a queue that did not answer one.
const STALL: Duration = Duration::from_secs(5);

/// Changes whose events are published and still stand in the outbox. Lost with the process, they
/// are published once more, and the queue drops what it has seen.
#[derive(Debug, Default)]
pub(crate) struct Published(Mutex<Vec<ChangeId>>);

impl Published {
    /// Adds one; hands out all of them once there are enough for a write.
    pub(crate) fn add(&self, change: ChangeId) -> Vec<ChangeId> {
        let mut changes = self.0.lock();
        changes.push(change);
        if changes.len() < TOGETHER {
            Vec::new()
        } else {
            std::mem::take(&mut *changes)
        }
    }

    pub(crate) fn take(&self) -> Vec<ChangeId> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// When the queue last left a brief announcement without an answer.
#[derive(Debug, Default)]
pub(crate) struct Stall(Mutex<Option<Duration>>);

impl Stall {
    pub(crate) fn begins(&self, now: Duration) {
        *self.0.lock() = Some(now);
    }

    pub(crate) fn lasts(&self, now: Duration) -> bool {
        let since = *self.0.lock();
        since.is_some_and(|since| now.saturating_sub(since) < STALL)
    }
}
