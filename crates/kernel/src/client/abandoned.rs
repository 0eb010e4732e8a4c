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
use std::collections::btree_map::Entry;
use std::time::Duration;

/// Maximum number of keys that are remembered; the oldest ones beyond are free once the time of their rows is over.
const MOST: usize = 10_000;

/// Maximum number of keys that are freed at a time.
const AT_ONCE: usize = 100;

#[derive(Debug)]
struct Abandoned {
    release: IdempotencyWrite,
    /// By the process's clock: its row may be written until then, however often it was freed.
    until: Duration,
    freed_count: u32,
}

/// The keys that this process has still to free.
#[derive(Debug, Default)]
pub(crate) struct AbandonedKeys(Mutex<BTreeMap<TaskId, Abandoned>>);

impl AbandonedKeys {
    fn keys(&self) -> MutexGuard<'_, BTreeMap<TaskId, Abandoned>> {
        self.0.lock()
    }

    /// `until`: as long as its row may be written yet.
    pub(super) fn add(&self, task: TaskId, release: IdempotencyWrite, until: Duration) {
        let mut keys = self.keys();
        let before = keys.get(&task).map(|key| key.until);
        if before.is_none() && keys.len() >= MOST {
            keys.pop_first();
        }
        let key = Abandoned {
            release,
            until: before.map_or(until, |before| before.max(until)),
            freed_count: 0,
        };
        keys.insert(task, key);
    }

    pub(super) fn has(&self, task: TaskId) -> bool {
        self.keys().contains_key(&task)
    }

    /// Those that were freed least often: each has its turn.
    fn least_freed(&self) -> Vec<(TaskId, IdempotencyWrite)> {
        let keys = self.keys();
        let mut all: Vec<_> = keys.iter().collect();
        all.sort_by_key(|(_, key)| key.freed_count);
        let next = all.into_iter().take(AT_ONCE);
        next.map(|(task, key)| (*task, key.release.clone()))
            .collect()
    }

    fn has_freed(&self, task: TaskId, now: Duration) {
        if let Entry::Occupied(mut key) = self.keys().entry(task) {
            if key.get().until <= now {
                key.remove();
            } else {
                key.get_mut().freed_count += 1;
            }
        }
    }
}

/// Whether a later try may succeed.
pub(super) fn is_away(error: &CommitError) -> bool {
    matches!(error, CommitError::Store(error) if error.may_pass())
}

/// Frees them, now that the store answers. What is not freed in time is with the next call, and what may be written yet is again.
pub(crate) async fn free_keys(engine: &Engine) {
    let free = async {
        for (task, release) in engine.abandoned.least_freed() {
            let receive = Some(ReceiveWrite::Abandoned);
            let now = engine.ports.clock.monotonic();
            match idempotency::write(engine, task, receive, Some(release)).await {
                Err(error) if is_away(&error) => return,
                Err(CommitError::Stale) | Ok(()) => {}
                Err(error) => tracing::warn!(%task, %error, "a key was not freed"),
            }
            engine.abandoned.has_freed(task, now);
        }
    };
    best_effort(engine.ports.clock.as_ref(), free).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::Tenant;
    use uuid::Uuid;

    const UNTIL: Duration = Duration::from_secs(60);

    const fn task(n: usize) -> TaskId {
        TaskId(Uuid::from_u128(n as u128))
    }

    fn of(count: usize) -> AbandonedKeys {
        let keys = AbandonedKeys::default();
        (0..count).for_each(|n| add(&keys, n, UNTIL));
        keys
    }

    fn add(keys: &AbandonedKeys, n: usize, until: Duration) {
        let release = IdempotencyWrite::Abandon {
            tenant: Tenant::default(),
            key: "key".to_owned(),
        };
        keys.add(task(n), release, until);
    }

    #[test]
    fn one_that_is_added_again_pushes_no_other_one_out() {
        let keys = of(MOST);
        add(&keys, MOST - 1, UNTIL);
        assert!(keys.has(task(0)));
        add(&keys, MOST, UNTIL);
        assert!(!keys.has(task(0)) && keys.has(task(MOST)));
    }

    #[test]
    fn one_that_was_freed_stays_until_its_time_is_over() {
        let keys = of(1);
        keys.has_freed(task(0), Duration::ZERO);
        add(&keys, 0, Duration::ZERO);
        keys.has_freed(task(0), UNTIL / 2);
        assert!(keys.has(task(0)), "a shorter time changes nothing");
        keys.has_freed(task(0), UNTIL);
        assert!(!keys.has(task(0)));
    }

    #[test]
    fn those_that_stay_leave_the_others_their_turn() {
        let keys = of(AT_ONCE + 1);
        for (task, _) in keys.least_freed() {
            keys.has_freed(task, Duration::ZERO);
        }
        assert_eq!(keys.least_freed()[0].0, task(AT_ONCE));
    }
}
