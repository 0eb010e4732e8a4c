//! The turns that a process runs now, and whether a task fits beside them. Must not start or end
//! one: that is the admission, in the module above.

use super::{Abandoned, Guest};
use counterstep_contracts::TaskId;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Turns {
    pub(super) running: BTreeMap<u64, (TaskId, usize)>,
    pub(super) entered: u64,
    /// Tasks of code that is not waited for any more and still occupies its thread: it can end the
    /// process yet.
    pub(super) abandoned: Vec<TaskId>,
    /// The task for which this process starts no other turn, until it fits.
    pub(super) waiting: Option<TaskId>,
}

impl Turns {
    /// Whether a task may start beside those that run. Another turn of the same task, which a lost
    /// lease has left behind, is not its neighbour.
    pub(super) fn fits(&self, guest: Guest) -> bool {
        let others = || {
            self.running
                .values()
                .filter(|(other, _)| *other != guest.task)
        };
        let beside = others().count() + self.in_its_way(guest);
        beside
            < others()
                .map(|(_, limit)| *limit)
                .min()
                .unwrap_or(usize::MAX)
                .min(guest.most_tasks())
    }

    /// How many neighbours a task has in abandoned code.
    pub(super) fn in_its_way(&self, guest: Guest) -> usize {
        match guest.abandoned {
            Abandoned::Neighbours => self.abandoned_beside(guest.task),
            Abandoned::Tolerated => 0,
        }
    }

    /// Whether waiting for turns to end can make room for a task, and this process waits for no
    /// other one.
    pub(super) fn can_drain(&self, guest: Guest) -> bool {
        // A process may wait for abandoned code as long as it lives: the task is left to another
        // one.
        guest.most.is_some()
            && self.waiting.is_none()
            && self.in_its_way(guest) < guest.most_tasks()
    }

    pub(super) fn abandoned_beside(&self, task: TaskId) -> usize {
        self.abandoned
            .iter()
            .filter(|other| **other != task)
            .count()
    }

    pub(super) fn room(&self) -> usize {
        if self.waiting.is_some() {
            return 0;
        }
        let most = self
            .running
            .values()
            .map(|(_, limit)| *limit)
            .min()
            .unwrap_or(usize::MAX);
        most.saturating_sub(self.running.len() + self.abandoned.len())
    }
}
