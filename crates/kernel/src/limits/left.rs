//! Tasks that this process has read and left because the line of their limit was full. As places become free they
//! are called one after the other, so that no permit waits for a message to come again. Must not read a task.

use super::{LimitKey, Limits, PlaceInLine, Share, state};
use crate::waiting_looks::Looks;
use counterstep_contracts::{Host, Limit, QueueName, TaskId};
use futures::future::select;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// So many are remembered for a limit. The others are looked at again when their messages come again.
const MOST: usize = 10_000;

/// Where there is no one to call, the loop is woken by what comes.
const IDLE: Duration = Duration::from_secs(3600);

/// A task that was left, and who runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftTask {
    pub(crate) task: TaskId,
    pub(crate) host: Host,
    pub(crate) queue: QueueName,
}

/// The tasks that a process has left for one limit.
#[derive(Debug, Default)]
pub(super) struct LeftTasks {
    /// By host and lane: a few.
    lines: Vec<Line>,
    ids: HashSet<TaskId>,
    next_no: u64,
    calls: usize,
    /// The last call, by this process's timer.
    called_at: Duration,
    /// Called, each with the place that it has not taken yet.
    called: HashMap<TaskId, PlaceInLine>,
}

#[derive(Debug)]
struct Line {
    host: Host,
    rank: u8,
    tasks: VecDeque<(u64, LeftTask)>,
}

impl LeftTasks {
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Remembers a task behind the others of its lane. `false`: there are too many.
    pub(super) fn push(&mut self, left: LeftTask) -> bool {
        if self.ids.contains(&left.task) || self.called.contains_key(&left.task) {
            return true;
        }
        if self.ids.len() >= MOST {
            return false;
        }
        self.ids.insert(left.task);
        let (host, rank, no) = (left.host, left.queue.rank(), self.next_no);
        self.next_no += 1;
        let is_its = |line: &&mut Line| line.host == host && line.rank == rank;
        match self.lines.iter_mut().find(is_its) {
            Some(line) => line.tasks.push_back((no, left)),
            None => self.lines.push(Line {
                host,
                rank,
                tasks: VecDeque::from([(no, left)]),
            }),
        }
        true
    }

    /// The next one: three of four by their lane, each fourth the one that was left first, so that a lane
    /// which is never empty does not starve the others.
    fn pop(&mut self, host: Host) -> Option<LeftTask> {
        let by_lane = self.calls % 4 != 3;
        let order = |line: &Line| {
            let no = line.tasks.front().map_or(u64::MAX, |(no, _)| *no);
            if by_lane { (line.rank, no) } else { (0, no) }
        };
        let of_host = self
            .lines
            .iter_mut()
            .filter(|line| line.host == host && !line.tasks.is_empty());
        let (_, left) = of_host.min_by_key(|line| order(line))?.tasks.pop_front()?;
        self.calls += 1;
        self.ids.remove(&left.task);
        Some(left)
    }

    /// The place of a task that was called.
    pub(super) fn place_of(&mut self, task: TaskId) -> Option<PlaceInLine> {
        self.called.remove(&task)
    }
}

/// A task that is to have a turn: a place in the line of its limit is kept for it until this is dropped.
#[derive(Debug)]
pub(crate) struct Called {
    limits: Arc<Limits>,
    key: LimitKey,
    pub(crate) left: LeftTask,
}

impl Drop for Called {
    fn drop(&mut self) {
        let place = {
            let mut shares = self.limits.shares();
            let share = shares.by_key.get_mut(&self.key);
            share.and_then(|share| share.left.place_of(self.left.task))
        };
        // Outside of the lock that it takes.
        drop(place);
    }
}

/// While one exists, tasks that this host leaves are called.
#[derive(Debug)]
pub(crate) struct Caller {
    limits: Arc<Limits>,
    host: Host,
    slots: usize,
}

impl Drop for Caller {
    fn drop(&mut self) {
        let mut shares = self.limits.shares();
        if let Some(at) = shares.callers.iter().position(|host| *host == self.host) {
            shares.callers.swap_remove(at);
        }
    }
}

impl Caller {
    /// Waits for the next task that a place is free for.
    pub(crate) async fn next(&self) -> Called {
        loop {
            let mut more = Box::pin(self.limits.vacant.notified());
            // Before the look: what becomes free after it ends this wait.
            more.as_mut().enable();
            match self.limits.call(self.host, self.slots) {
                Ok(called) => return called,
                Err(wait) => select(more, self.limits.clock.sleep(wait)).await,
            };
        }
    }
}

impl Limits {
    /// Calls the tasks that a host leaves from now on.
    pub(crate) fn caller(self: &Arc<Self>, host: Host, slots: usize) -> Caller {
        self.shares().callers.push(host);
        Caller {
            limits: self.clone(),
            host,
            slots,
        }
    }

    /// Leaves a task for which there was no place or no permit, to be called where it is given. Returns when to look
    /// at it again otherwise.
    pub(crate) fn leave(
        &self,
        (key, limit): (&LimitKey, &Limit),
        left: Option<LeftTask>,
    ) -> Duration {
        let now = self.clock.monotonic();
        let mut shares = self.shares();
        let left = left.filter(|left| shares.callers.contains(&left.host));
        let share = shares.of(key, limit);
        let is_called = left.is_some_and(|left| share.left.push(left));
        if !is_called && share.left.is_empty() {
            return share.look_again(now);
        }
        drop(shares);
        if is_called {
            self.vacant.notify_waiters();
        }
        Looks::LATEST
    }

    /// Whether tasks were left that are called before others.
    pub(crate) fn has_left(&self, key: &LimitKey) -> bool {
        let shares = self.shares();
        let share = shares.by_key.get(key);
        share.is_some_and(|share| !share.left.is_empty())
    }

    /// The next task of a host, or how long there is none as far as is known.
    fn call(self: &Arc<Self>, host: Host, slots: usize) -> Result<Called, Duration> {
        let now = self.clock.monotonic();
        let mut shares = self.shares();
        let shares = &mut *shares;
        let mut wait = IDLE;
        for (key, share) in &mut shares.by_key {
            if share.left.is_empty() || !share.has_place(shares.in_line, slots) {
                continue;
            }
            let until_start = share.until_start(now);
            if !until_start.is_zero() {
                wait = wait.min(until_start);
                continue;
            }
            let Some(left) = share.left.pop(host) else {
                continue;
            };
            share.left.called_at = now;
            share.in_line += 1;
            shares.in_line += 1;
            let place = PlaceInLine {
                limits: self.clone(),
                key: key.clone(),
                is_called: true,
            };
            share.left.called.insert(left.task, place);
            return Ok(Called {
                limits: self.clone(),
                key: key.clone(),
                left,
            });
        }
        Err(wait)
    }
}

impl Share {
    /// How long it makes no sense to ask for a start. A person may set a higher rate meanwhile.
    fn until_start(&self, now: Duration) -> Duration {
        let start = self.next_start.saturating_sub(now + state::AHEAD);
        let again = (self.left.called_at + Looks::LATEST).saturating_sub(now);
        start.min(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(lane: &str) -> LeftTask {
        LeftTask {
            task: TaskId(uuid::Uuid::now_v7()),
            host: Host::Worker,
            queue: QueueName(lane.to_owned()),
        }
    }

    #[test]
    fn each_fourth_call_is_for_the_task_that_was_left_first() {
        let mut tasks = LeftTasks::default();
        let backlog = [left("calls.backlog"), left("calls.backlog")];
        let urgent: Vec<_> = (0..6).map(|_| left("calls.urgent")).collect();
        for task in backlog.iter().chain(&urgent) {
            assert!(tasks.push(task.clone()));
            assert!(tasks.push(task.clone()), "once");
        }
        let called: Vec<_> = std::iter::from_fn(|| tasks.pop(Host::Worker)).collect();
        let expected = [
            &urgent[0],
            &urgent[1],
            &urgent[2],
            &backlog[0],
            &urgent[3],
            &urgent[4],
            &urgent[5],
            &backlog[1],
        ];
        assert_eq!(called.iter().collect::<Vec<_>>(), expected);
        assert!(tasks.is_empty());
    }

    #[test]
    fn tasks_of_another_host_are_not_called() {
        let mut tasks = LeftTasks::default();
        tasks.push(left("calls"));
        assert_eq!(tasks.pop(Host::Api), None);
        assert!(tasks.pop(Host::Worker).is_some());
    }
}
