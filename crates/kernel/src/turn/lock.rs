//! The lock of a task during a turn: taken before the claim, prolonged with the lease, let go with
//! it.
//!
//! It decides nothing. Without it, two hosts that are offered the same task both try to claim it,
//! and the epoch picks one. With it, the second one mostly does not try. A message that comes for
//! the first time is with one host, and others rarely come by its task at that moment: its turn
//! takes none.

use crate::engine::Engine;
use crate::engine::time_limits::best_effort;
use crate::ports::{Acquired, LockTag};
use crate::record::TaskRecord;
use counterstep_contracts::TaskId;
use parking_lot::Mutex;
use std::time::Duration;

/// A task that another host is about to claim is looked at again after this long: by then its row
/// shows more.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The lock of one task, as far as the service gave it to us.
#[derive(Debug)]
pub(super) struct TaskLock {
    engine: Engine,
    task: TaskId,
    ttl: Duration,
    /// `None`: we go on without it.
    tag: Mutex<Option<LockTag>>,
}

impl TaskLock {
    /// Takes the lock of a task that is to be claimed; it ends with the lease unless it is
    /// prolonged. `None`: another host has it, and is likely to claim the task at this moment.
    pub(super) async fn take(engine: &Engine, record: &TaskRecord, ttl: Duration) -> Option<Self> {
        let task = record.task.id;
        let tag = match best_effort(
            engine.ports.clock.as_ref(),
            engine.ports.locks.acquire(task, ttl),
        )
        .await
        {
            Some(Ok(Acquired::Held(tag))) => Some(tag),
            Some(Ok(Acquired::Elsewhere)) if outlasts_locks(record, ttl) => {
                tracing::info!(%task, "claiming in spite of a lock: the row shows that no host has the task");
                None
            }
            Some(Ok(Acquired::Elsewhere)) => return None,
            // The adapter says when the service went away and came back; one line a task would
            // drown that.
            Some(Err(error)) => {
                tracing::debug!(%task, %error, "claiming without a lock");
                None
            }
            None => {
                tracing::debug!(%task, "claiming without a lock: its service did not answer in time");
                None
            }
        };
        Some(Self {
            engine: engine.clone(),
            task,
            ttl,
            tag: Mutex::new(tag),
        })
    }

    /// No lock: most likely no other host is about to claim the task.
    pub(super) fn none(engine: &Engine, task: TaskId, ttl: Duration) -> Self {
        Self {
            engine: engine.clone(),
            task,
            ttl,
            tag: Mutex::new(None),
        }
    }

    /// Takes the lock of a task for which this process is to drain, so that few processes drain for
    /// one task. `None`: another one does. Where processes share no lock, or the service does not
    /// answer, the process drains if it is `due` without one.
    pub(super) async fn to_drain(
        engine: &Engine,
        task: TaskId,
        ttl: Duration,
        due: Unlocked,
    ) -> Option<Self> {
        let locks = &engine.ports.locks;
        if !locks.is_shared() && due == Unlocked::NotYet {
            return None;
        }
        let tag = match best_effort(engine.ports.clock.as_ref(), locks.acquire(task, ttl)).await {
            Some(Ok(Acquired::Held(tag))) => Some(tag),
            Some(Ok(Acquired::Elsewhere)) => return None,
            Some(Err(_)) | None if due == Unlocked::Due => None,
            Some(Err(_)) | None => return None,
        };
        Some(Self {
            engine: engine.clone(),
            task,
            ttl,
            tag: Mutex::new(tag),
        })
    }

    /// Prolongs it, beside a heartbeat. A lock that is lost is no reason to stop: the lease is what
    /// counts, and the heartbeat beside this asks for it.
    pub(super) async fn extend(&self) {
        let Some(tag) = self.held().clone() else {
            return;
        };
        let task = self.task;
        match best_effort(
            self.engine.ports.clock.as_ref(),
            self.engine.ports.locks.extend(task, &tag, self.ttl),
        )
        .await
        {
            Some(Ok(true)) => {}
            Some(Ok(false)) => {
                tracing::debug!(%task, "the lock is lost; the lease decides");
                *self.held() = None;
            }
            Some(Err(error)) => tracing::debug!(%task, %error, "the lock was not prolonged"),
            None => {
                tracing::debug!(%task, "the lock was not prolonged: its service did not answer in time")
            }
        }
    }

    /// Lets it go. Nothing happens where that was done before.
    pub(super) async fn release(&self) {
        let Some(tag) = self.held().take() else {
            return;
        };
        let task = self.task;
        match best_effort(
            self.engine.ports.clock.as_ref(),
            self.engine.ports.locks.release(task, &tag),
        )
        .await
        {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                tracing::debug!(%task, %error, "the lock was not released; it ends by itself")
            }
            None => tracing::debug!(%task, "the lock was not released in time; it ends by itself"),
        }
    }

    fn held(&self) -> parking_lot::MutexGuard<'_, Option<LockTag>> {
        self.tag.lock()
    }
}

/// Whether a process may drain for a task without a lock that the others see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unlocked {
    /// It has waited long enough for that.
    Due,
    /// Others are to begin.
    NotYet,
}

impl Unlocked {
    /// Processes without locks begin one after the other, by the last digit of their random ids: a
    /// task that has waited for `steps` times the patience is due in those with a smaller one.
    pub(super) fn after(engine: &Engine, steps: u128) -> Self {
        let place = engine
            .id
            .chars()
            .next_back()
            .and_then(|digit| digit.to_digit(16))
            .unwrap_or_default();
        if steps > u128::from(place) {
            Self::Due
        } else {
            Self::NotYet
        }
    }
}

/// Whether the row contradicts a lock that another host appears to hold: a task must not starve
/// behind one whose holder is gone. A holder that is alive claims within moments, long before its
/// first heartbeat would be due; and it loses the lock with the lease.
fn outlasts_locks(record: &TaskRecord, ttl: Duration) -> bool {
    let row = &record.task;
    let ready_since = row
        .due_at
        .map_or(row.updated_at, |due| due.max(row.updated_at));
    record.lease_has_expired() || record.now.after(ready_since) > ttl / 3
}
