//! Tasks that this process has read and deferred because the line of their limit was full. Each gets a turn when a
//! place in the line becomes free: without this list a permit would be idle until a message is redelivered. Must not
//! read a task.

use super::{KeyedLimit, LimitKey, Limits, PlaceInLine, Share, Shares, grant};
use crate::host::waiting_looks::Looks;
use counterstep_contracts::{Host, QueueName, TaskId};
use futures::future::select;
use std::collections::hash_map::Entry;
use std::collections::{HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Maximum deferred tasks per process. Further ones wait for the redelivery of their messages.
const MOST: usize = 10_000;

/// The wait of a receiver while no task is deferred: a notification ends it.
const IDLE: Duration = Duration::from_secs(3600);

/// A deferred task, and the host and queue that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeferredTask {
    pub(crate) task: TaskId,
    pub(crate) host: Host,
    pub(crate) queue: QueueName,
}

/// The deferred tasks of one limit.
#[derive(Debug, Default)]
pub(super) struct DeferredTasks {
    /// One for each host and lane.
    lanes: Vec<LaneTasks>,
    ids: HashSet<TaskId>,
    next_number: u64,
    /// How many were taken: decides whether the next one goes by rank.
    taken: usize,
    /// When the last one was taken, by this process's timer.
    taken_at: Duration,
}

#[derive(Debug)]
struct LaneTasks {
    host: Host,
    rank: u8,
    tasks: VecDeque<NumberedTask>,
}

/// A deferred task with its number in the order of deferral.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NumberedTask {
    number: u64,
    deferred: DeferredTask,
}

impl DeferredTasks {
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn has_of(&self, host: Host) -> bool {
        let mut of_host = self.lanes.iter().filter(|lane| lane.host == host);
        of_host.any(|lane| !lane.tasks.is_empty())
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Adds a task behind the others of its lane, unless it is there.
    fn push(&mut self, deferred: DeferredTask) {
        if !self.ids.insert(deferred.task) {
            return;
        }
        let (host, rank, number) = (deferred.host, deferred.queue.rank(), self.next_number);
        self.next_number += 1;
        let is_its = |lane: &LaneTasks| lane.host == host && lane.rank == rank;
        let at = self.lanes.iter().position(is_its).unwrap_or_else(|| {
            let tasks = VecDeque::new();
            self.lanes.push(LaneTasks { host, rank, tasks });
            self.lanes.len() - 1
        });
        self.lanes[at]
            .tasks
            .push_back(NumberedTask { number, deferred });
    }

    /// Takes the next task of a host: by the rank of its lane, or the first one that was deferred.
    fn pop(&mut self, host: Host) -> Option<NumberedTask> {
        let by_rank = QueueName::is_turn_by_rank(self.taken);
        let order = |lane: &LaneTasks| {
            let number = lane.tasks.front().map_or(u64::MAX, |next| next.number);
            if by_rank {
                (lane.rank, number)
            } else {
                (0, number)
            }
        };
        let of_host = self
            .lanes
            .iter_mut()
            .filter(|lane| lane.host == host && !lane.tasks.is_empty());
        let next = of_host.min_by_key(|lane| order(lane))?.tasks.pop_front()?;
        self.taken += 1;
        self.ids.remove(&next.deferred.task);
        Some(next)
    }

    /// Removes the tasks of a host that takes none any more.
    fn forget(&mut self, host: Host) {
        for lane in self.lanes.iter().filter(|lane| lane.host == host) {
            for next in &lane.tasks {
                self.ids.remove(&next.deferred.task);
            }
        }
        self.lanes.retain(|lane| lane.host != host);
    }
}

/// A task that was taken for a turn. A place in the line of its limit is reserved for it until the turn takes the place,
/// or this is dropped.
#[derive(Debug)]
pub(crate) struct TakenTask {
    limits: Arc<Limits>,
    key: LimitKey,
    number: u64,
    pub(crate) deferred: DeferredTask,
}

impl TakenTask {
    /// Whether a reserved place is the one of this.
    fn has_place(&self, place: &PlaceInLine) -> bool {
        place.number == Some(self.number) && place.key == self.key
    }

    /// Defers the task again, behind the others: it could not start. Not where another turn has used its place
    /// meanwhile.
    pub(crate) fn defer_again(&self) {
        let mut shares = self.limits.shares();
        let is_received = shares.receivers.contains(&self.deferred.host);
        let place = shares.reserved.get(&self.deferred.task);
        let is_unused = place.is_some_and(|place| self.has_place(place));
        let share = shares.by_key.get_mut(&self.key);
        if let Some(share) = share.filter(|_| is_received && is_unused) {
            share.deferred.push(self.deferred.clone());
        }
    }
}

impl Drop for TakenTask {
    fn drop(&mut self) {
        let place = {
            let mut shares = self.limits.shares();
            match shares.reserved.entry(self.deferred.task) {
                Entry::Occupied(place) if self.has_place(place.get()) => Some(place.remove()),
                _ => None,
            }
        };
        // Its drop takes the lock.
        drop(place);
    }
}

/// The receiver of the tasks that a host defers. While none exists, the host defers no task.
#[derive(Debug)]
pub(crate) struct DeferredReceiver {
    limits: Arc<Limits>,
    host: Host,
    slots: usize,
}

impl Drop for DeferredReceiver {
    fn drop(&mut self) {
        let mut shares = self.limits.shares();
        if let Some(at) = shares.receivers.iter().position(|host| *host == self.host) {
            shares.receivers.swap_remove(at);
        }
        if !shares.receivers.contains(&self.host) {
            for share in shares.by_key.values_mut() {
                share.deferred.forget(self.host);
            }
        }
    }
}

impl DeferredReceiver {
    /// Waits until a place is free for a deferred task, and takes the task.
    pub(crate) async fn next(&self) -> TakenTask {
        loop {
            let mut more = Box::pin(self.limits.place_free.notified());
            // Before the look: what becomes free after it ends this wait.
            more.as_mut().enable();
            match self.limits.take_next(self.host, self.slots) {
                Ok(taken) => return taken,
                Err(wait) => select(more, self.limits.clock.sleep(wait)).await,
            };
        }
    }
}

impl Limits {
    /// Receives the tasks that a host defers from now on.
    pub(crate) fn deferred_receiver(
        self: &Arc<Self>,
        host: Host,
        slots: usize,
    ) -> DeferredReceiver {
        self.shares().receivers.push(host);
        DeferredReceiver {
            limits: self.clone(),
            host,
            slots,
        }
    }

    /// Defers a task that got no place or no permit; `None`: it is found again in another way. Returns the delay of its
    /// redelivery.
    pub(crate) fn defer(
        &self,
        KeyedLimit { key, limit }: KeyedLimit<'_>,
        task: Option<DeferredTask>,
    ) -> Duration {
        let now = self.clock.monotonic();
        let mut shares = self.shares();
        let deferred: usize = shares
            .by_key
            .values()
            .map(|share| share.deferred.len())
            .sum();
        let task = task.filter(|task| {
            shares.receivers.contains(&task.host) && !shares.reserved.contains_key(&task.task)
        });
        let share = shares.of(key, limit);
        let Some(task) = task.filter(|_| deferred < MOST) else {
            return match share.deferred.is_empty() {
                true => share.look_again(now),
                false => Looks::LATEST,
            };
        };
        share.deferred.push(task);
        drop(shares);
        self.place_free.notify_waiters();
        Looks::LATEST
    }

    /// Reserves the place of a deferred task again: it got no permit in its time. `false`: the task was not deferred.
    pub(crate) fn reserve_again(&self, task: TaskId, place: Option<PlaceInLine>) -> bool {
        let place = match place.filter(|place| place.number.is_some()) {
            Some(place) => self.shares().reserved.insert(task, place),
            None => return false,
        };
        // An earlier reservation, if any. Its drop takes the lock.
        drop(place);
        true
    }

    /// Releases the reserved place of a task whose turn does not need it.
    pub(crate) fn release_place_of(&self, task: TaskId) {
        let place = self.shares().reserved.remove(&task);
        // Its drop takes the lock.
        drop(place);
    }

    /// Whether tasks of this limit are deferred: they go before others.
    pub(crate) fn has_deferred(&self, key: &LimitKey) -> bool {
        let shares = self.shares();
        let share = shares.by_key.get(key);
        share.is_some_and(|share| !share.deferred.is_empty())
    }

    /// Takes the next task of a host, from the limits in turn. An error is the time until one may be there.
    fn take_next(self: &Arc<Self>, host: Host, slots: usize) -> Result<TakenTask, Duration> {
        let now = self.clock.monotonic();
        let mut shares = self.shares();
        let Shares {
            by_key,
            in_line,
            reserved,
            last_taken,
            ..
        } = &mut *shares;
        let (mut wait, mut next) = (IDLE, None);
        let after = last_taken.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let turn = by_key
            .range((after, Bound::Unbounded))
            .chain(by_key.range(..=last_taken.clone().unwrap_or_default()));
        for (key, share) in turn.filter(|(_, share)| share.deferred.has_of(host)) {
            if !share.has_place(*in_line, slots) && !share.starts_one_at_once() {
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
        let Some(NumberedTask { number, deferred }) = share.deferred.pop(host) else {
            return Err(wait);
        };
        share.deferred.taken_at = now;
        *last_taken = Some(key.clone());
        // Occupied: taken for another limit a moment ago. Its turn reserves nothing here.
        if let Entry::Vacant(place) = reserved.entry(deferred.task) {
            share.in_line += 1;
            *in_line += 1;
            place.insert(PlaceInLine {
                limits: self.clone(),
                key: key.clone(),
                number: Some(number),
            });
        }
        Ok(TakenTask {
            limits: self.clone(),
            key,
            number,
            deferred,
        })
    }
}

impl Share {
    /// The time until a start may be left. Bounded, since a person may set a higher rate meanwhile.
    fn until_start(&self, now: Duration) -> Duration {
        let start = self.next_start.saturating_sub(now + grant::AHEAD);
        let again = (self.deferred.taken_at + Looks::LATEST).saturating_sub(now);
        start.min(again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deferred(lane: &str) -> DeferredTask {
        DeferredTask {
            task: TaskId(uuid::Uuid::now_v7()),
            host: Host::Worker,
            queue: QueueName(lane.to_owned()),
        }
    }

    #[test]
    fn each_fourth_turn_is_for_the_task_that_was_deferred_first() {
        let mut tasks = DeferredTasks::default();
        let backlog = [deferred("calls.backlog"), deferred("calls.backlog")];
        let urgent: Vec<_> = (0..6).map(|_| deferred("calls.urgent")).collect();
        for task in backlog.iter().chain(&urgent) {
            tasks.push(task.clone());
            tasks.push(task.clone());
        }
        let taken: Vec<_> = std::iter::from_fn(|| tasks.pop(Host::Worker))
            .map(|next| next.deferred)
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
        assert_eq!(taken.iter().collect::<Vec<_>>(), expected);
        assert!(tasks.is_empty());
    }

    #[test]
    fn tasks_of_another_host_are_not_taken() {
        let mut tasks = DeferredTasks::default();
        tasks.push(deferred("calls"));
        assert_eq!(tasks.pop(Host::Api), None);
        assert!(tasks.pop(Host::Worker).is_some());
    }

    #[test]
    fn tasks_of_a_host_that_takes_none_any_more_are_removed() {
        let mut tasks = DeferredTasks::default();
        tasks.push(deferred("calls"));
        tasks.forget(Host::Api);
        assert!(tasks.has_of(Host::Worker));
        tasks.forget(Host::Worker);
        assert!(tasks.is_empty() && !tasks.has_of(Host::Worker));
    }
}
