//! The port for locks of tasks.
//!
//! A lock decides nothing: the epoch in the row does. It only spares a host the attempt to claim
//! what another one is claiming. So every answer may be wrong, late or missing, and the task still
//! runs once.

use async_trait::async_trait;
use counterstep_contracts::TaskId;
use std::fmt::Debug;
use std::time::Duration;

/// The lock service could not answer. Go on without it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the lock service does not answer: {0}")]
pub struct LockError(pub String);

/// Names one holding of a lock, so that only its holder prolongs or ends it. Opaque to everyone but
/// its adapter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LockTag(pub Vec<u8>);

/// Answer to an attempt to take a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// It is ours until its time runs out.
    Held(LockTag),
    /// Another holder has it, or had it a moment ago.
    Elsewhere,
}

/// One lock a task, which ends by itself. No call waits for a lock to become free, and each ends
/// within the adapter's own time limit, whatever becomes of the service.
#[async_trait]
pub trait Locks: Send + Sync + Debug {
    /// Whether all processes of the installation ask the same service. Where each has its own, a
    /// lock that is held says nothing about the others.
    fn is_shared(&self) -> bool {
        true
    }

    /// Takes the lock of a task for `ttl`, if it is free.
    async fn acquire(&self, task: TaskId, ttl: Duration) -> Result<Acquired, LockError>;

    /// Prolongs a holding to `ttl` from now. `false`: it is over, and the lock may have another
    /// holder; look at the lease.
    async fn extend(&self, task: TaskId, tag: &LockTag, ttl: Duration) -> Result<bool, LockError>;

    /// Ends a holding. One that is over already is left as it is, also where the lock has another
    /// holder since: that is success.
    async fn release(&self, task: TaskId, tag: &LockTag) -> Result<(), LockError>;
}
