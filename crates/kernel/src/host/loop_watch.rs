//! Whether the loops of a process still go round. Each says by when it is back; one that is late hangs.
//! Read by liveness probes, from threads on which nothing of the engine runs. Nothing else is
//! decided by it.

use counterstep_contracts::TaskId;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The loops of a process.
#[derive(Debug, Default)]
pub(crate) struct LoopWatch(Mutex<Loops>);

#[derive(Debug, Default)]
struct Loops {
    entered: u64,
    under_way: BTreeMap<u64, Round>,
}

#[derive(Debug)]
struct Round {
    what: &'static str,
    task: Option<TaskId>,
    /// By the process's timer.
    back_by: Duration,
}

/// A loop that is late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Late {
    /// What is late.
    pub what: &'static str,
    /// The task, where its heartbeats are late.
    pub task: Option<TaskId>,
    /// By how much.
    pub by: Duration,
}

impl LoopWatch {
    fn loops(&self) -> MutexGuard<'_, Loops> {
        self.0.lock()
    }

    /// A loop begins; it is watched from its first [`Loop::back_by`] on.
    pub(crate) fn enter(self: &Arc<Self>, what: &'static str, task: Option<TaskId>) -> Loop {
        let mut loops = self.loops();
        loops.entered += 1;
        let number = loops.entered;
        let round = Round {
            what,
            task,
            back_by: Duration::MAX,
        };
        loops.under_way.insert(number, round);
        Loop {
            number,
            of: self.clone(),
        }
    }

    /// The loop that is late by more than `tolerated`, and most of all.
    pub(crate) fn late(&self, now: Duration, tolerated: Duration) -> Option<Late> {
        let loops = self.loops();
        let latest = loops.under_way.values().min_by_key(|it| it.back_by)?;
        let by = now.saturating_sub(latest.back_by);
        (by > tolerated).then_some(Late {
            what: latest.what,
            task: latest.task,
            by,
        })
    }
}

/// A loop, while it goes round.
#[derive(Debug)]
pub(crate) struct Loop {
    number: u64,
    of: Arc<LoopWatch>,
}

impl Loop {
    /// It is back by then at the latest, by the process's timer.
    pub(crate) fn back_by(&self, back_by: Duration) {
        if let Some(round) = self.of.loops().under_way.get_mut(&self.number) {
            round.back_by = back_by;
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.of.loops().under_way.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::{Late, LoopWatch};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn the_loop_that_is_late_most_of_all_is_named_until_it_is_back_or_ends() {
        let seconds = Duration::from_secs;
        let vitals = Arc::new(LoopWatch::default());
        let late = |now| vitals.late(seconds(now), seconds(10));
        assert_eq!(late(1_000), None, "no loop is late");
        let first = vitals.enter("first", None);
        let second = vitals.enter("second", None);
        assert_eq!(late(1_000), None, "they have just begun");
        first.back_by(seconds(5));
        second.back_by(seconds(3));
        assert_eq!(late(13), None, "a delay of this length is tolerated");
        let named = |what, by| {
            Some(Late {
                what,
                task: None,
                by: seconds(by),
            })
        };
        assert_eq!(late(14), named("second", 11));
        assert_eq!(late(20), named("second", 17));
        second.back_by(seconds(21));
        assert_eq!(late(20), named("first", 15));
        drop(first);
        assert_eq!(late(20), None);
    }
}
