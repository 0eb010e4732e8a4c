//! Tasks that came to wait on queues and that wait there no more, as one process has written these changes: counted in memory over the
//! last minutes, for rates that people read. Decides of no task.

use crate::ports::{QueueFlow, TasksMoved};
use crate::record::AuditEntry;
use counterstep_contracts::QueueName;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Minutes that are counted, the current one included.
const MINUTES: u64 = 5;

/// Queues that are counted in a minute: those of more than any program are not, since their names come from rows.
const MOST_QUEUES: usize = 100;

const MINUTE: Duration = Duration::from_secs(60);

/// What a change is for the queue of its task: whether it waits there before, and after. An offer that is repeated is neither.
pub(crate) fn moved(audit: &[AuditEntry]) -> Option<TasksMoved> {
    let (first, last) = (audit.first()?, audit.last()?);
    let before = first.from.is_some_and(|it| it.is_unclaimed());
    match (before, last.to.is_unclaimed()) {
        (false, true) => Some(TasksMoved::CAME),
        (true, false) => Some(TasksMoved::LEFT),
        (true, true) | (false, false) => None,
    }
}

/// What was counted, by minutes of this process's timer.
#[derive(Debug, Default)]
pub(crate) struct QueueWindow {
    /// When it began to count.
    since: Option<Duration>,
    /// The oldest first; by queue or lane.
    minutes: VecDeque<(u64, BTreeMap<String, TasksMoved>)>,
}

impl QueueWindow {
    /// Begins to count: what is not noted from now on has not happened.
    pub(crate) fn begin(&mut self, now: Duration) {
        self.since.get_or_insert(now);
    }

    /// A task has come to a queue, or left it.
    pub(crate) fn note(&mut self, queue: &str, moved: TasksMoved, now: Duration) {
        self.begin(now);
        let minute = now.as_secs() / MINUTE.as_secs();
        if self.minutes.back().is_none_or(|(last, _)| *last < minute) {
            self.minutes.push_back((minute, BTreeMap::new()));
            self.forget(minute);
        }
        let Some((_, queues)) = self.minutes.back_mut() else {
            return;
        };
        let has_room = queues.len() < MOST_QUEUES;
        match queues.get_mut(queue) {
            Some(so_far) => *so_far += moved,
            None if has_room => drop(queues.insert(queue.to_owned(), moved)),
            None => {}
        }
    }

    fn forget(&mut self, minute: u64) {
        let first = first_of(minute);
        self.minutes.retain(|(of, _)| *of >= first);
    }

    /// The sums, by queue.
    pub(crate) fn sums(&self, now: Duration) -> QueueFlow {
        let first = first_of(now.as_secs() / MINUTE.as_secs());
        let begun = Duration::from_secs(first * MINUTE.as_secs()).max(self.since.unwrap_or(now));
        let mut queues: BTreeMap<QueueName, TasksMoved> = BTreeMap::new();
        let counted = self.minutes.iter().filter(|(minute, _)| *minute >= first);
        for (queue, moved) in counted.flat_map(|(_, queues)| queues) {
            *queues.entry(QueueName(queue.clone()).base()).or_default() += *moved;
        }
        QueueFlow {
            window: now.saturating_sub(begun),
            queues,
        }
    }
}

/// The first minute that counts in this one.
const fn first_of(minute: u64) -> u64 {
    (minute + 1).saturating_sub(MINUTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn of(window: &QueueWindow, queue: &str, now: u64) -> (u64, u64, u64) {
        let sums = window.sums(seconds(now));
        let moved = sums.queues.get(&QueueName(queue.to_owned()));
        let moved = moved.copied().unwrap_or_default();
        (moved.came, moved.left, sums.window.as_secs())
    }

    #[test]
    fn what_is_older_than_five_minutes_is_forgotten_and_the_window_is_as_long_as_what_is_counted() {
        let mut window = QueueWindow::default();
        window.begin(seconds(1_000));
        assert_eq!(of(&window, "lamps", 1_030), (0, 0, 30), "it has just begun");
        window.note("lamps", TasksMoved::CAME, seconds(1_030));
        window.note("lamps", TasksMoved::CAME, seconds(1_100));
        window.note("lamps", TasksMoved::LEFT, seconds(1_100));
        assert_eq!(of(&window, "lamps", 1_110), (2, 1, 110));
        assert_eq!(of(&window, "stock", 1_110), (0, 0, 110));
        // The minutes of the timer begin at 1020, 1080 and so on: that of 1020 counts until 1319.
        assert_eq!(of(&window, "lamps", 1_319), (2, 1, 299));
        assert_eq!(of(&window, "lamps", 1_320), (1, 1, 240));
        window.note("lamps", TasksMoved::LEFT, seconds(1_330));
        assert_eq!(of(&window, "lamps", 1_330), (1, 2, 250));
        assert_eq!(of(&window, "lamps", 9_000), (0, 0, 240), "a pause of hours");
    }

    #[test]
    fn lanes_are_counted_with_their_queue_and_no_more_queues_than_a_program_has() {
        let mut window = QueueWindow::default();
        let lanes = QueueName("lamps".to_owned()).lanes();
        for lane in &lanes {
            window.note(&lane.0, TasksMoved::CAME, seconds(5));
        }
        assert_eq!(of(&window, "lamps", 5).0, lanes.len() as u64);
        for number in 0..1_000 {
            window.note(&format!("queue-{number}"), TasksMoved::CAME, seconds(6));
        }
        let counted = window.minutes.iter().map(|(_, queues)| queues.len());
        assert_eq!(counted.sum::<usize>(), MOST_QUEUES);
    }
}
