//! Limits of steps over all processes: the attempts and tasks of this process that ask for permits, and what it has of each
//! limit (`share`). What processes share is written by `exchange`; `grant` decides on it. Must not read or write a task.

mod admin;
mod declared;
mod deferred;
pub(crate) mod exchange;
mod found;
mod grant;
mod held_permit;
mod key;
mod share;
mod unused;

pub use admin::{
    LimitError, LimitRow, LimitSetting, LimitUse, NewLimit, limits, reset_limit, set_limit,
};
pub(crate) use deferred::DeferredTask;
pub(crate) use exchange::set_values_of;
pub use found::LimitFound;
pub(crate) use found::limit_found;
pub(crate) use grant::LimitValues;
pub(crate) use held_permit::LimitPermit;
pub(crate) use key::{KeyedLimit, LimitKey};
pub use unused::forget_unused_limits;

use crate::admission::setting_cache::SettingCache;
use crate::ports::Clock;
use counterstep_contracts::{Host, Limit, TaskId};
use futures::channel::oneshot;
use futures::future::{Either, select};
use parking_lot::{Mutex, MutexGuard};
use share::{Backing, Share};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long an attempt whose task is claimed waits for its permit before the task sleeps: about a round
/// trip to the database.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// What a process has of all limits.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(super) clock: Arc<dyn Clock>,
    shares: Mutex<Shares>,
    /// Something is to be exchanged.
    pub(crate) wanted: Notify,
    /// A place in a line may be free, or a task was deferred.
    place_free: Notify,
    /// The one loop of a process that exchanges; its parts take turns.
    pub(crate) exchanging: tokio::sync::Mutex<()>,
    /// What people have set.
    set: SettingCache<BTreeMap<String, LimitValues>>,
}

#[derive(Debug, Default)]
struct Shares {
    by_key: BTreeMap<LimitKey, Share>,
    in_line: usize,
    /// The hosts of this process that take deferred tasks.
    receivers: Vec<Host>,
    /// Reserved places, by the task that was taken and has not used its place yet.
    reserved: HashMap<TaskId, PlaceInLine>,
    last_taken: Option<LimitKey>,
}

/// A place in the line of a limit. Dropped, it is another task's.
#[derive(Debug)]
pub(crate) struct PlaceInLine {
    limits: Arc<Limits>,
    key: LimitKey,
    /// The number of its task among the deferred ones; `None`: it was not deferred.
    number: Option<u64>,
}

impl Drop for PlaceInLine {
    fn drop(&mut self) {
        {
            let mut shares = self.limits.shares();
            shares.in_line -= 1;
            if let Some(share) = shares.by_key.get_mut(&self.key) {
                share.in_line -= 1;
            }
        }
        self.limits.place_free.notify_waiters();
    }
}

/// An attempt that waits. Dropped, it gives back the permit of a start that it has received and not used. The start is lost.
struct Waiting<'a> {
    limits: &'a Arc<Limits>,
    key: &'a LimitKey,
    given: oneshot::Receiver<Duration>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let given = {
            // What is given is given under this lock.
            let _shares = self.limits.shares();
            self.given.close();
            self.given.try_recv().ok().flatten()
        };
        if given.is_some() {
            self.limits.give_back(self.key);
        }
    }
}

impl Limits {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            shares: Mutex::default(),
            wanted: Notify::new(),
            place_free: Notify::new(),
            exchanging: tokio::sync::Mutex::default(),
            set: SettingCache::default(),
        }
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock()
    }

    /// Waits for a permit of this limit and for its start, for `at_most`. `None`: there is none in this time.
    pub(crate) async fn take(
        self: &Arc<Self>,
        of: KeyedLimit<'_>,
        at_most: Duration,
    ) -> Option<LimitPermit> {
        let mut waiting = self.wait_for(of);
        let start = match select(&mut waiting.given, self.clock.sleep(at_most)).await {
            Either::Left((start, _)) => start.ok(),
            Either::Right(_) => waiting.given.try_recv().ok().flatten(),
        };
        start.map(|start| LimitPermit::new(self, of.key, start))
    }

    /// The same, for as long as it takes.
    pub(crate) async fn take_whenever(self: &Arc<Self>, of: KeyedLimit<'_>) -> Option<LimitPermit> {
        let mut waiting = self.wait_for(of);
        let start = (&mut waiting.given).await.ok();
        start.map(|start| LimitPermit::new(self, of.key, start))
    }

    /// A permit that this process has and that no attempt waits for.
    pub(crate) fn take_free(self: &Arc<Self>, of: KeyedLimit<'_>) -> Option<LimitPermit> {
        let mut waiting = self.wait_for(of);
        let start = waiting.given.try_recv().ok().flatten();
        start.map(|start| LimitPermit::new(self, of.key, start))
    }

    fn wait_for<'a>(self: &'a Arc<Self>, KeyedLimit { key, limit }: KeyedLimit<'a>) -> Waiting<'a> {
        let (give, given) = oneshot::channel();
        let mut shares = self.shares();
        let share = shares.of(key, limit);
        share.waiting.push_back(give);
        share.serve(self.clock.monotonic());
        if share.is_waited_for() && share.is_to_be_exchanged() {
            self.wanted.notify_one();
        }
        drop(shares);
        Waiting {
            limits: self,
            key,
            given,
        }
    }

    /// A place in the line of a limit, for a task with a slot and without a lease. Deferred tasks
    /// go first.
    pub(crate) fn stand_in_line(
        self: &Arc<Self>,
        KeyedLimit { key, limit }: KeyedLimit<'_>,
        task: TaskId,
        slots: usize,
    ) -> Option<PlaceInLine> {
        let mut shares = self.shares();
        // One for another limit stays: the task stands in both lines.
        if shares
            .reserved
            .get(&task)
            .is_some_and(|place| place.key == *key)
        {
            return shares.reserved.remove(&task);
        }
        let taken = shares.in_line;
        let share = shares.of(key, limit);
        if !share.deferred.is_empty() || !share.has_place(taken, slots) {
            return None;
        }
        share.in_line += 1;
        shares.in_line += 1;
        Some(PlaceInLine {
            limits: self.clone(),
            key: key.clone(),
            number: None,
        })
    }

    /// The permits that attempts of this process hold, by limit and what it is for.
    pub(crate) fn in_use(&self) -> BTreeMap<String, u32> {
        let shares = self.shares();
        let used = shares.by_key.iter();
        let used = used.filter(|(_, share)| share.in_use > 0 && share.backing == Backing::Leased);
        used.map(|(key, share)| (key.record().to_owned(), share.in_use))
            .collect()
    }

    /// Whether there is none for one more attempt, as far as this process knows.
    pub(crate) fn is_used_up(&self, key: &LimitKey) -> bool {
        let shares = self.shares();
        shares.by_key.get(key).is_some_and(Share::is_used_up)
    }

    /// When to look again at a task that sleeps until there is a permit.
    pub(crate) fn look_again(&self, KeyedLimit { key, limit }: KeyedLimit<'_>) -> Duration {
        let now = self.clock.monotonic();
        self.shares().of(key, limit).look_again(now)
    }

    /// An attempt has ended.
    fn give_back(self: &Arc<Self>, key: &LimitKey) {
        let mut shares = self.shares();
        let Some(share) = shares.by_key.get_mut(key) else {
            return;
        };
        share.in_use = share.in_use.saturating_sub(1);
        if share.keeps.is_some_and(|keeps| share.held > keeps) {
            share.held = share.held.saturating_sub(1).max(share.in_use);
            share.next_exchange = Duration::ZERO;
        }
        share.serve(self.clock.monotonic());
        if share.has_free() && !share.is_to_be_exchanged() {
            drop(shares);
            self.place_free.notify_waiters();
            return;
        }
        if share.next_exchange.is_zero() {
            self.wanted.notify_one();
        }
    }

    /// How long the permits of a limit are still this process's; `None`: it has no number of them.
    fn left(&self, key: &LimitKey) -> Option<Duration> {
        let now = self.clock.monotonic();
        let shares = self.shares();
        let share = shares.by_key.get(key)?;
        share
            .values
            .at_once
            .map(|_| share.until.saturating_sub(now))
    }
}

impl Shares {
    fn of(&mut self, key: &LimitKey, limit: &Limit) -> &mut Share {
        let declared = LimitValues {
            at_once: limit.at_once,
            rate: limit.rate,
        };
        let new = || Share::new(key, declared);
        let share = self.by_key.entry(key.clone()).or_insert_with(new);
        share.declared = declared;
        share
    }
}
