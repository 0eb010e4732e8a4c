//! Which tasks a process runs beside each other, once some of them were lost with their hosts: the
//! neighbours of a task that kills its host are to complete, and that task alone is to be given up.
//!
//! Owns the rule, a pure function of the task's count of losses, and the admission of turns to this
//! process. Must not decide whether a task is given up: that is `draft::take_back`, and the count
//! alone decides it.

mod turns;

use counterstep_contracts::TaskId;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use turns::Turns;

/// How many tasks a process may run at most while it runs one that has lost so many hosts in a row,
/// that one included; `None`: as many as ever. `allowed` are the losses that its type allows,
/// `concurrency` the tasks that the process runs at a time.
///
/// Every loss is counted for all tasks of the lost host, so that a task that kills its hosts is
/// among the tasks with the most losses. The first loss is an ordinary one. From the second on few
/// run together, and with each loss half as many, which parts the guilty task from the others in
/// few crashes: slots are many, and a half of them would part no group that is smaller. The run
/// after which a loss would be one too many is always alone, so that no task is given up for what a
/// neighbour did; and the one before it has so few tasks that few have to run alone.
#[must_use]
pub(crate) fn most_tasks(losses: u32, allowed: u32, concurrency: usize) -> Option<usize> {
    match losses {
        0 => None,
        losses if losses >= allowed => Some(1),
        1 => None,
        losses => {
            let first = if losses + 1 == allowed {
                LAST_GROUP
            } else {
                FIRST_GROUP
            };
            let halved = (concurrency / 2)
                .min(FIRST_GROUP)
                .checked_shr(losses - 2)
                .unwrap_or(0);
            Some(halved.clamp(1, first))
        }
    }
}

/// Tasks that run together after the second loss, at most.
const FIRST_GROUP: usize = 16;

/// Tasks that run together in the last run before the one alone, at most.
const LAST_GROUP: usize = 4;

/// The turns of this process, each with the most tasks that may run while it does.
#[derive(Debug, Default)]
pub(crate) struct Isolation {
    turns: Mutex<Turns>,
    ended: Notify,
}

/// A task that wants to start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guest {
    pub(crate) task: TaskId,
    /// How many tasks it allows in its process, itself included; `None`: any number.
    pub(crate) most: Option<usize>,
    pub(crate) abandoned: Abandoned,
}

impl Guest {
    fn most_tasks(&self) -> usize {
        self.most.unwrap_or(usize::MAX)
    }
}

/// What abandoned code is to a task that has to run among few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Abandoned {
    /// It counts as a task that runs: it can end the process yet.
    Neighbours,
    /// It does not count. It may never return, and a task that waits for that never runs where
    /// there is no other process.
    Tolerated,
}

impl Abandoned {
    /// For a task that has been ready for this time.
    pub(crate) fn beside_one_ready_for(ready: Duration) -> Self {
        if ready > TOLERATED_AFTER {
            Self::Tolerated
        } else {
            Self::Neighbours
        }
    }
}

/// A process without abandoned code would have taken a ready task by then: it takes one that fits
/// at once, and drains for one that does not after half a minute.
const TOLERATED_AFTER: Duration = Duration::from_secs(180);

/// What to do with a task that has to run among few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// Start no other turn until it fits.
    Drain,
    /// Leave it to a process where it fits. Every process finds a due task, and all of them must
    /// not drain for one.
    Leave,
}

/// The answer to a turn that wants to start.
#[derive(Debug)]
pub(crate) enum Entry {
    /// It may, and counts until the guard is dropped.
    In(Running),
    /// It is the next: ask again with this when [`Isolation::turn_ended`] says that a turn has
    /// ended.
    Next(Waiting),
    /// Not here and now.
    Full,
}

/// A turn of this process, while it lives.
#[derive(Debug)]
pub(crate) struct Running {
    number: u64,
    of: Arc<Isolation>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.of.turns().running.remove(&self.number);
        self.of.ended.notify_waiters();
    }
}

/// No other turn starts in this process while it lives.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<Isolation>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.turns().waiting = None;
    }
}

impl Isolation {
    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock()
    }

    /// Asks for a turn of a task. `waiting`: from an earlier call.
    pub(crate) fn enter(
        self: &Arc<Self>,
        guest: Guest,
        full: WhenFull,
        waiting: Option<Waiting>,
    ) -> Entry {
        let mut turns = self.turns();
        let is_next = waiting.is_some();
        if (is_next || turns.waiting.is_none()) && turns.fits(guest) {
            turns.entered += 1;
            let number = turns.entered;
            turns
                .running
                .insert(number, (guest.task, guest.most_tasks()));
            drop(turns);
            return Entry::In(Running {
                number,
                of: self.clone(),
            });
        }
        if let Some(waiting) = waiting {
            // Code may have been abandoned meanwhile. The guard takes this lock when it is dropped.
            let goes_on = turns.in_its_way(guest) < guest.most_tasks();
            drop(turns);
            return if goes_on {
                Entry::Next(waiting)
            } else {
                Entry::Full
            };
        }
        if full == WhenFull::Leave || !turns.can_drain(guest) {
            return Entry::Full;
        }
        turns.waiting = Some(guest.task);
        Entry::Next(Waiting(self.clone()))
    }

    /// Whether a task that does not fit would, once turns of this process have ended, and this
    /// process may wait for that.
    pub(crate) fn can_drain(&self, guest: Guest) -> bool {
        self.turns().can_drain(guest)
    }

    /// Runs of abandoned code of other tasks.
    pub(crate) fn abandoned_beside(&self, task: TaskId) -> usize {
        self.turns().abandoned_beside(task)
    }

    /// Code of a task is not waited for any more, and still occupies its thread.
    pub(crate) fn abandon(&self, task: TaskId) {
        self.turns().abandoned.push(task);
    }

    /// Abandoned code of a task has returned.
    pub(crate) fn returned(&self, task: TaskId) {
        let mut turns = self.turns();
        if let Some(at) = turns.abandoned.iter().position(|other| *other == task) {
            turns.abandoned.swap_remove(at);
        }
        drop(turns);
        self.ended.notify_waiters();
    }

    /// Runs of code that are not waited for any more and still occupy their threads.
    pub(crate) fn abandoned(&self) -> usize {
        self.turns().abandoned.len()
    }

    /// Waits until a turn ends.
    pub(crate) async fn turn_ended(&self) {
        self.ended.notified().await;
    }

    /// How many more turns may start now.
    pub(crate) fn room(&self) -> usize {
        self.turns().room()
    }
}

#[cfg(test)]
mod tests {
    use super::{Abandoned, Entry, Guest, Isolation, TOLERATED_AFTER, WhenFull, most_tasks};
    use counterstep_contracts::TaskId;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn the_first_loss_changes_nothing_and_the_last_run_is_alone() {
        // Allowed losses, concurrency, and the most tasks after 0, 1, 2 … losses; 0 stands for "as
        // many as ever".
        let table: [(u32, usize, &[usize]); 10] = [
            (3, 16, &[0, 0, 4, 1, 1]),
            (3, 256, &[0, 0, 4, 1, 1]),
            (4, 256, &[0, 0, 16, 4, 1, 1]),
            (10, 256, &[0, 0, 16, 8, 4, 2, 1, 1, 1, 1, 1, 1]),
            (10, 16, &[0, 0, 8, 4, 2, 1, 1, 1, 1, 1, 1, 1]),
            (10, 5, &[0, 0, 2, 1, 1, 1, 1, 1, 1, 1, 1]),
            (10, 1, &[0, 0, 1, 1]),
            (1, 16, &[0, 1, 1]),
            (0, 16, &[0, 1]),
            (200, 64, &[0, 0, 16, 8, 4, 2, 1, 1]),
        ];
        for (allowed, concurrency, expected) in table {
            for (losses, most) in (0u32..).zip(expected) {
                let found = most_tasks(losses, allowed, concurrency);
                assert_eq!(
                    found.unwrap_or(0),
                    *most,
                    "{losses} of {allowed} losses at {concurrency} tasks"
                );
            }
        }
        assert_eq!(
            most_tasks(150, 200, 64),
            Some(1),
            "a shift by more than a number has bits"
        );
    }

    fn task(number: u128) -> TaskId {
        TaskId(uuid::Uuid::from_u128(number))
    }

    fn guest(number: u128, most: Option<usize>) -> Guest {
        Guest {
            task: task(number),
            most,
            abandoned: Abandoned::Neighbours,
        }
    }

    #[test]
    fn a_suspect_that_was_ready_for_long_drains_beside_abandoned_code_and_runs_beside_no_task() {
        let isolation = Arc::new(Isolation::default());
        let Entry::In(first) = isolation.enter(guest(1, None), WhenFull::Drain, None) else {
            panic!("it is empty")
        };
        isolation.abandon(task(2));
        let ready_for = |time| Guest {
            abandoned: Abandoned::beside_one_ready_for(time),
            ..guest(3, Some(1))
        };
        let (fresh, old) = (
            ready_for(TOLERATED_AFTER),
            ready_for(TOLERATED_AFTER + Duration::from_secs(1)),
        );
        assert!(!isolation.can_drain(fresh), "the code may never return");
        assert!(matches!(
            isolation.enter(fresh, WhenFull::Drain, None),
            Entry::Full
        ));
        assert!(isolation.can_drain(old));
        let Entry::Next(waiting) = isolation.enter(old, WhenFull::Drain, None) else {
            panic!("a task runs")
        };
        assert!(!isolation.can_drain(old), "one at a time");
        drop(first);
        let Entry::In(_alone) = isolation.enter(old, WhenFull::Drain, Some(waiting)) else {
            panic!("no task runs")
        };
        assert_eq!(isolation.room(), 0);
        assert!(
            matches!(
                isolation.enter(guest(4, None), WhenFull::Leave, None),
                Entry::Full
            ),
            "it runs alone"
        );
    }

    #[test]
    fn a_task_that_has_to_run_alone_drains_the_process_and_keeps_others_out() {
        let isolation = Arc::new(Isolation::default());
        let Entry::In(first) = isolation.enter(guest(1, None), WhenFull::Drain, None) else {
            panic!("it is empty")
        };
        let Entry::Next(suspect) = isolation.enter(guest(2, Some(1)), WhenFull::Drain, None) else {
            panic!("another task runs")
        };
        assert_eq!(isolation.room(), 0);
        assert!(
            matches!(
                isolation.enter(guest(3, None), WhenFull::Drain, None),
                Entry::Full
            ),
            "it would never drain"
        );
        assert!(
            matches!(
                isolation.enter(guest(4, Some(1)), WhenFull::Drain, None),
                Entry::Full
            ),
            "one at a time"
        );
        let Entry::Next(suspect) =
            isolation.enter(guest(2, Some(1)), WhenFull::Drain, Some(suspect))
        else {
            panic!("the first one still runs")
        };
        drop(first);
        let Entry::In(suspect) = isolation.enter(guest(2, Some(1)), WhenFull::Drain, Some(suspect))
        else {
            panic!("it has drained")
        };
        assert_eq!(isolation.room(), 0);
        assert!(
            matches!(
                isolation.enter(guest(3, None), WhenFull::Drain, None),
                Entry::Full
            ),
            "it runs alone"
        );
        drop(suspect);
        assert!(matches!(
            isolation.enter(guest(3, None), WhenFull::Drain, None),
            Entry::In(_)
        ));
    }

    #[test]
    fn a_suspect_that_was_found_and_not_delivered_drains_nothing() {
        let isolation = Arc::new(Isolation::default());
        let Entry::In(_first) = isolation.enter(guest(1, None), WhenFull::Leave, None) else {
            panic!("it is empty")
        };
        assert!(matches!(
            isolation.enter(guest(2, Some(1)), WhenFull::Leave, None),
            Entry::Full
        ));
        let Entry::In(_second) = isolation.enter(guest(2, Some(2)), WhenFull::Leave, None) else {
            panic!("two fit")
        };
        assert_eq!(isolation.room(), 0);
        assert!(matches!(
            isolation.enter(guest(3, None), WhenFull::Leave, None),
            Entry::Full
        ));
    }

    #[test]
    fn code_that_was_abandoned_is_a_neighbour_until_it_returns() {
        let isolation = Arc::new(Isolation::default());
        isolation.abandon(task(1));
        let enter = |number, most, full| isolation.enter(guest(number, most), full, None);
        assert!(
            matches!(enter(2, Some(1), WhenFull::Leave), Entry::Full),
            "it could end the process yet"
        );
        assert!(
            matches!(enter(2, Some(1), WhenFull::Drain), Entry::Full),
            "it may never return"
        );
        assert!(
            matches!(enter(1, Some(1), WhenFull::Leave), Entry::In(_)),
            "it is the task's own"
        );
        let Entry::In(two) = enter(2, Some(2), WhenFull::Leave) else {
            panic!("two fit")
        };
        assert_eq!(isolation.room(), 0);
        drop(two);
        isolation.returned(task(1));
        assert_eq!(isolation.abandoned(), 0);
        assert!(matches!(enter(2, Some(1), WhenFull::Leave), Entry::In(_)));
    }

    #[test]
    fn a_process_that_drains_stops_that_for_code_that_was_abandoned_meanwhile() {
        let isolation = Arc::new(Isolation::default());
        let Entry::In(first) = isolation.enter(guest(1, None), WhenFull::Drain, None) else {
            panic!("it is empty")
        };
        let Entry::Next(suspect) = isolation.enter(guest(2, Some(1)), WhenFull::Drain, None) else {
            panic!("another task runs")
        };
        isolation.abandon(task(1));
        drop(first);
        assert!(matches!(
            isolation.enter(guest(2, Some(1)), WhenFull::Drain, Some(suspect)),
            Entry::Full
        ));
        assert!(matches!(
            isolation.enter(guest(3, None), WhenFull::Drain, None),
            Entry::In(_)
        ));
    }

    #[test]
    fn a_turn_that_a_lost_lease_has_left_behind_is_no_neighbour_of_its_own_task() {
        let isolation = Arc::new(Isolation::default());
        let Entry::In(_old) = isolation.enter(guest(1, None), WhenFull::Leave, None) else {
            panic!("it is empty")
        };
        assert!(matches!(
            isolation.enter(guest(1, Some(1)), WhenFull::Leave, None),
            Entry::In(_)
        ));
    }
}
