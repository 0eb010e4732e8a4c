//! Which queues are paused, as a process remembers it for a moment.

use counterstep_contracts::QueueName;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What was read is believed for so long.
const BELIEVED: Duration = Duration::from_secs(1);

/// Which queues were paused when they were last read.
#[derive(Debug, Default)]
pub(crate) struct PausedQueues(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// By the timer of the process.
    at: Option<Duration>,
    paused: BTreeSet<QueueName>,
}

impl PausedQueues {
    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what is known is old. The caller reads them then: the other loops go by what is known,
    /// and do not all ask the same.
    pub(super) fn are_to_be_read(&self, now: Duration) -> bool {
        let mut remembered = self.remembered();
        let is_fresh = |at| now.saturating_sub(at) < BELIEVED;
        if remembered.at.is_some_and(is_fresh) {
            return false;
        }
        remembered.at = Some(now);
        true
    }

    pub(super) fn learn(&self, paused: BTreeSet<QueueName>) {
        self.remembered().paused = paused;
    }

    /// Those of these queues and lanes that are not paused.
    pub(super) fn without(&self, queues: &[QueueName]) -> Vec<QueueName> {
        let remembered = self.remembered();
        let open = queues
            .iter()
            .filter(|queue| !remembered.paused.contains(&queue.base()));
        open.cloned().collect()
    }
}
