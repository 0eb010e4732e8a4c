//! Which queues are paused, as a process remembers it for a moment.

use counterstep_contracts::QueueName;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long what was read is used before it is read again.
const BELIEVED: Duration = Duration::from_secs(1);

/// Which queues were paused when they were last read.
#[derive(Debug, Default)]
pub(crate) struct PausedQueues(Mutex<PauseCache>);

#[derive(Debug, Default)]
struct PauseCache {
    /// By the timer of the process.
    at: Option<Duration>,
    /// `None`: they were never read.
    paused: Option<BTreeSet<QueueName>>,
}

impl PausedQueues {
    fn remembered(&self) -> MutexGuard<'_, PauseCache> {
        self.0.lock()
    }

    /// Whether the caller is to read them: what is known is old, or nothing is. Of old knowledge one loop reads, and the others
    /// go by it meanwhile; before the first read there is nothing to go by, so that each reads.
    pub(super) fn are_to_be_read(&self, now: Duration) -> bool {
        let mut remembered = self.remembered();
        let is_fresh = |at| now.saturating_sub(at) < BELIEVED;
        if remembered.paused.is_some() && remembered.at.is_some_and(is_fresh) {
            return false;
        }
        remembered.at = Some(now);
        true
    }

    pub(super) fn is_known(&self) -> bool {
        self.remembered().paused.is_some()
    }

    pub(super) fn learn(&self, paused: BTreeSet<QueueName>) {
        self.remembered().paused = Some(paused);
    }

    /// Those of these queues and lanes that are not paused; none before the first read.
    pub(super) fn without(&self, queues: &[QueueName]) -> Vec<QueueName> {
        let remembered = self.remembered();
        let Some(paused) = &remembered.paused else {
            return Vec::new();
        };
        let open = queues
            .iter()
            .filter(|queue| !paused.contains(&queue.base()));
        open.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_read_no_queue_is_open_and_every_loop_reads() {
        let (known, queue) = (PausedQueues::default(), QueueName("zips".to_owned()));
        let queues = [queue.clone(), QueueName("videos".to_owned())];
        let now = Duration::from_secs(7);
        assert!(known.are_to_be_read(now));
        // The first loop has not had its answer, or had none.
        assert!(known.are_to_be_read(now));
        assert_eq!(known.without(&queues), []);
        known.learn(BTreeSet::from([queue]));
        assert!(!known.are_to_be_read(now));
        assert_eq!(known.without(&queues), queues[1..]);
        // With a queue its lanes are paused.
        let lanes = ["zips.urgent", "zips.backlog", "videos.urgent"];
        let lanes = lanes.map(|name| QueueName(name.to_owned()));
        assert_eq!(known.without(&lanes), lanes[2..]);
        // Of old knowledge one loop reads, and the others go by it.
        assert!(known.are_to_be_read(now + BELIEVED));
        assert!(!known.are_to_be_read(now + BELIEVED));
        assert_eq!(known.without(&queues), queues[1..]);
    }
}
