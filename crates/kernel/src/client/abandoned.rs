//! Keys of uploads, or of their tries, that came to nothing while the store did not answer. Their rows say that the request is under
//! way in this process, which lives: other processes would refuse every repetition until the row's time is over.

use super::idempotency;
use crate::change::transition::{IdempotencyWrite, ReceiveWrite};
use crate::engine::Engine;
use crate::engine::time_limits::best_effort;
use crate::ports::CommitError;
use counterstep_contracts::TaskId;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;

/// Maximum number of keys that are remembered; the oldest ones beyond are free once the time of their rows is over.
const MOST: usize = 10_000;

/// Maximum number of keys that are freed at a time.
const AT_ONCE: usize = 100;

/// The keys that this process has still to free.
#[derive(Debug, Default)]
pub(crate) struct AbandonedKeys(Mutex<BTreeMap<TaskId, IdempotencyWrite>>);

impl AbandonedKeys {
    fn keys(&self) -> MutexGuard<'_, BTreeMap<TaskId, IdempotencyWrite>> {
        self.0.lock()
    }

    pub(super) fn add(&self, task: TaskId, release: IdempotencyWrite) {
        let mut keys = self.keys();
        if keys.len() >= MOST {
            keys.pop_first();
        }
        keys.insert(task, release);
    }

    pub(super) fn has(&self, task: TaskId) -> bool {
        self.keys().contains_key(&task)
    }
}

/// Whether a later try may succeed.
pub(super) fn is_away(error: &CommitError) -> bool {
    matches!(error, CommitError::Store(error) if error.may_pass())
}

/// Frees them, now that the store answers. What is not freed in time is with the next call.
pub(crate) async fn free_keys(engine: &Engine) {
    let some = engine.abandoned.keys().clone();
    let free = async {
        for (task, release) in some.into_iter().take(AT_ONCE) {
            let receive = Some(ReceiveWrite::Abandoned);
            match idempotency::write(engine, task, receive, Some(release)).await {
                Err(error) if is_away(&error) => return,
                Err(CommitError::Stale) | Ok(()) => {}
                Err(error) => tracing::warn!(%task, %error, "a key was not freed"),
            }
            engine.abandoned.keys().remove(&task);
        }
    };
    best_effort(engine.ports.clock.as_ref(), free).await;
}
