//! Tasks that this process has read and left because the line of their limit was full. As places become free they
//! are called one after the other, so that no permit waits for a message to come again. Must not read a task.

use super::{LimitKey, Limits, PlaceInLine, Share, Shares, state};
use crate::waiting_looks::Looks;
use counterstep_contracts::{Host, Limit, QueueName, TaskId};
use futures::future::select;
use std::collections::hash_map::Entry;
use std::collections::{HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// So many are remembered for all limits. The others are looked at again when their messages come again.
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
}

#[derive(Debug)]
struct Line {
    host: Host,
    rank: u8,
    tasks: VecDeque<Numbered>,
}

/// In the order in which they were left.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Numbered {
    no: u64,
    left: LeftTask,
}

impl LeftTasks {
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn has_of(&self, host: Host) -> bool {
        let mut of_host = self.lines.iter().filter(|line| line.host == host);
        of_host.any(|line| !line.tasks.is_empty())
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Remembers a task behind the others of its lane.
    fn push(&mut self, left: LeftTask) {
        if !self.ids.insert(left.task) {
            return;
        }
        let (host, rank, no) = (left.host, left.queue.rank(), self.next_no);
        self.next_no += 1;
        let is_its = |line: &Line| line.host == host && line.rank == rank;
        let at = self.lines.iter().position(is_its).unwrap_or_else(|| {
            let tasks = VecDeque::new();
            self.lines.push(Line { host, rank, tasks });
            self.lines.len() - 1
        });
        self.lines[at].tasks.push_back(Numbered { no, left });
    }

    /// The next one: three of four by their lane, each fourth the one that was left first, so that a lane
    /// which is never empty does not starve the others.
    fn pop(&mut self, host: Host) -> Option<Numbered> {
        let by_lane = self.calls % 4 != 3;
        let order = |line: &Line| {
            let no = line.tasks.front().map_or(u64::MAX, |next| next.no);
            if by_lane { (line.rank, no) } else { (0, no) }
        };
        let of_host = self
            .lines
            .iter_mut()
            .filter(|line| line.host == host && !line.tasks.is_empty());
        let next = of_host.min_by_key(|line| order(line))?.tasks.pop_front()?;
        self.calls += 1;
        self.ids.remove(&next.left.task);
        Some(next)
    }

    /// Those of a host, whom nothing calls any more.
    fn forget(&mut self, host: Host) {
        for line in self.lines.iter().filter(|line| line.host == host) {
            for next in &line.tasks {
                self.ids.remove(&next.left.task);
            }
        }
        self.lines.retain(|line| line.host != host);
    }
}

/// A task that is to have a turn: a place in the line of its limit is kept for it until it has been there, or this is
/// dropped.
#[derive(Debug)]
pub(crate) struct Called {
    limits: Arc<Limits>,
    key: LimitKey,
    no: u64,
    pub(crate) left: LeftTask,
}

impl Called {
    /// It could not start: it is called again behind the others. A task that another turn has taken meanwhile is not.
    pub(crate) fn put_back(&self) {
        let mut shares = self.limits.shares();
        let is_called = shares.callers.contains(&self.left.host);
        let is_its = |place: &PlaceInLine| place.called_as == Some(self.no);
        let has_place = shares.called.get(&self.left.task).is_some_and(is_its);
        let share = shares.by_key.get_mut(&self.key);
        if let Some(share) = share.filter(|_| is_called && has_place) {
            share.left.push(self.left.clone());
        }
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        let place = {
            let mut shares = self.limits.shares();
            match shares.called.entry(self.left.task) {
                Entry::Occupied(place) if place.get().called_as == Some(self.no) => {
                    Some(place.remove())
                }
                _ => None,
            }
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
        if !shares.callers.contains(&self.host) {
            for share in shares.by_key.values_mut() {
                share.left.forget(self.host);
            }
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

    /// Leaves a task for which there was no place or no permit, to be called where it is given. Returns when to look at it
    /// again otherwise.
    pub(crate) fn leave(
        &self,
        (key, limit): (&LimitKey, &Limit),
        left: Option<LeftTask>,
    ) -> Duration {
        let now = self.clock.monotonic();
        let mut shares = self.shares();
        let remembered: usize = shares.by_key.values().map(|share| share.left.len()).sum();
        let left = left.filter(|left| {
            shares.callers.contains(&left.host) && !shares.called.contains_key(&left.task)
        });
        let share = shares.of(key, limit);
        let Some(left) = left.filter(|_| remembered < MOST) else {
            return match share.left.is_empty() {
                true => share.look_again(now),
                false => Looks::LATEST,
            };
        };
        share.left.push(left);
        drop(shares);
        self.vacant.notify_waiters();
        Looks::LATEST
    }

    /// A task that was called waited for its permit in vain: who called it calls it again. `false`: it was not called.
    pub(crate) fn waits_for_a_call(&self, task: TaskId, place: Option<PlaceInLine>) -> bool {
        let place = match place.filter(|place| place.called_as.is_some()) {
            Some(place) => self.shares().called.insert(task, place),
            None => return false,
        };
        // Another call's, if any, outside of the lock that it takes.
        drop(place);
        true
    }

    /// A task that was called has not asked for its place, and does not any more.
    pub(crate) fn is_past_the_line(&self, task: TaskId) {
        let place = self.shares().called.remove(&task);
        // Outside of the lock that it takes.
        drop(place);
    }

    /// Whether tasks were left that are called before others.
    pub(crate) fn has_left(&self, key: &LimitKey) -> bool {
        let shares = self.shares();
        let share = shares.by_key.get(key);
        share.is_some_and(|share| !share.left.is_empty())
    }

    /// The next task of a host, of the limits in turn, or how long there is none as far as is known.
    fn call(self: &Arc<Self>, host: Host, slots: usize) -> Result<Called, Duration> {
        let now = self.clock.monotonic();
        let mut shares = self.shares();
        let Shares {
            by_key,
            in_line,
            called,
            last_called,
            ..
        } = &mut *shares;
        let (mut wait, mut next) = (IDLE, None);
        let after = last_called
            .clone()
            .map_or(Bound::Unbounded, Bound::Excluded);
        let turn = by_key
            .range((after.clone(), Bound::Unbounded))
            .chain(by_key.range(..=last_called.clone().unwrap_or_default()));
        for (key, share) in turn.filter(|(_, share)| share.left.has_of(host)) {
            if !share.has_place(*in_line, slots) {
                continue;
            }
            match share.until_start(now) {
                Duration::ZERO => {
                    next = Some(key.clone());
                    break;
                }
                until_start => wait = wait.min(until_start),
            }
        }
        let Some(key) = next else { return Err(wait) };
        let Some(share) = by_key.get_mut(&key) else {
            return Err(wait);
        };
        let Some(Numbered { no, left }) = share.left.pop(host) else {
            return Err(wait);
        };
        share.left.called_at = now;
        *last_called = Some(key.clone());
        // Called already for another limit: it asks again for this one.
        if let Entry::Vacant(place) = called.entry(left.task) {
            share.in_line += 1;
            *in_line += 1;
            place.insert(PlaceInLine {
                limits: self.clone(),
                key: key.clone(),
                called_as: Some(no),
            });
        }
        Ok(Called {
            limits: self.clone(),
            key,
            no,
            left,
        })
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
            tasks.push(task.clone());
            tasks.push(task.clone());
        }
        let called: Vec<_> = std::iter::from_fn(|| tasks.pop(Host::Worker))
            .map(|next| next.left)
            .collect();
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

    #[test]
    fn tasks_of_a_host_that_calls_no_more_are_forgotten() {
        let mut tasks = LeftTasks::default();
        tasks.push(left("calls"));
        tasks.forget(Host::Api);
        assert!(tasks.has_of(Host::Worker));
        tasks.forget(Host::Worker);
        assert!(tasks.is_empty() && !tasks.has_of(Host::Worker));
    }
}
