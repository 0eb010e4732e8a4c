//! Limits of steps over all processes: permits and starts that this process has of each, the attempts
//! that wait for some, and who uses them. What they share with other processes is written by
//! `exchange`; `grant` decides on it. Must not read or write a task.

mod admin;
mod declared;
mod deferred;
pub(crate) mod exchange;
mod found;
mod grant;
mod held_permit;
mod key;
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
use crate::host::waiting_looks::Looks;
use crate::ports::Clock;
use counterstep_contracts::{Host, Limit, TaskId};
use deferred::DeferredTasks;
use futures::channel::oneshot;
use futures::future::{Either, select};
use grant::{Grant, Need};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long an attempt whose task is claimed waits for its permit before the task sleeps: about a round
/// trip to the database.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// Tasks that wait with a slot but without a lease: at most one in this number of a process's slots, ...
const SLOTS_IN_LINE: usize = 2;

/// ... and of those at most one in this number for one limit.
const LINES: usize = 2;

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

/// Who grants the permits of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backing {
    /// This process alone: all of them once, and nothing is exchanged.
    Process,
    /// A record that all processes share, for a lease.
    Leased,
}

/// What a process has of one limit.
#[derive(Debug)]
struct Share {
    backing: Backing,
    values: LimitValues,
    /// As declared; people may set others.
    declared: LimitValues,
    held: u32,
    /// By this process's timer: its permits are other processes' from then on.
    until: Duration,
    in_use: u32,
    /// Maximum number of permits that it keeps as they become free.
    keeps: Option<u32>,
    /// By this process's timer.
    starts: VecDeque<Duration>,
    /// Each receives its start. Not a permit: where the attempt stops waiting at this moment, the permit would be dropped
    /// under the lock that its drop takes.
    waiting: VecDeque<oneshot::Sender<Duration>>,
    in_line: usize,
    deferred: DeferredTasks,
    /// The last exchange left some without.
    lacks_some: bool,
    /// When it is exchanged next, by this process's timer.
    next_exchange: Duration,
    /// When a start is left again.
    next_start: Duration,
    looks: Looks,
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
        let (backing, held, until) = match key.is_of_process() {
            true => (
                Backing::Process,
                limit.at_once.unwrap_or(u32::MAX),
                Duration::MAX,
            ),
            false => (Backing::Leased, 0, Duration::ZERO),
        };
        let share = self.by_key.entry(key.clone()).or_insert_with(|| Share {
            backing,
            values: declared,
            declared,
            held,
            until,
            in_use: 0,
            keeps: None,
            starts: VecDeque::new(),
            waiting: VecDeque::new(),
            in_line: 0,
            deferred: DeferredTasks::default(),
            lacks_some: false,
            // What a process grants itself never is.
            next_exchange: until,
            next_start: Duration::ZERO,
            looks: Looks::default(),
        });
        share.declared = declared;
        share
    }
}

impl Share {
    /// Gives what there is to those that wait.
    fn serve(&mut self, now: Duration) {
        self.starts
            .retain(|start| now.saturating_sub(*start) <= grant::AHEAD);
        self.waiting.retain(|waiting| !waiting.is_canceled());
        while !self.waiting.is_empty() {
            let has_permit =
                self.values.at_once.is_none() || self.in_use < self.held && now < self.until;
            let start = match self.values.rate {
                Some(_) => self.starts.front().copied(),
                None => Some(now),
            };
            let Some(start) = start.filter(|_| has_permit) else {
                return;
            };
            let Some(waiting) = self.waiting.pop_front() else {
                return;
            };
            // Otherwise it has stopped waiting.
            if waiting.send(start).is_ok() {
                self.in_use += 1;
                self.starts.pop_front();
            }
        }
    }

    /// Has it exchanged at once. `false`: it never is.
    fn is_to_be_exchanged(&mut self) -> bool {
        let is_leased = self.backing == Backing::Leased;
        if is_leased {
            self.next_exchange = Duration::ZERO;
        }
        is_leased
    }

    /// Whether there is a permit that no attempt holds.
    fn has_free(&self) -> bool {
        self.held > self.in_use
    }

    fn is_used_up(&self) -> bool {
        match self.backing {
            Backing::Process => !self.has_free(),
            Backing::Leased => self.lacks_some,
        }
    }

    /// Whether one more deferred task finds its permit without a place in the line, beside those that are on their way to one.
    fn starts_one_at_once(&self) -> bool {
        let free = self.held.saturating_sub(self.in_use);
        self.backing == Backing::Process
            && self.in_line < usize::try_from(free).unwrap_or(usize::MAX)
    }

    /// Whether one more may stand in its line, beside those in all lines of a process with this number of slots.
    fn has_place(&self, taken: usize, slots: usize) -> bool {
        let places = (slots / SLOTS_IN_LINE).max(1);
        // One place is reserved for limits that may have permits.
        let kept_free = usize::from(self.is_used_up() && places > 1);
        taken + kept_free < places && self.in_line < (places / LINES).max(1)
    }

    /// The delay until a task that is not deferred is looked at again.
    fn look_again(&mut self, now: Duration) -> Duration {
        let start = self.next_start.saturating_sub(now);
        self.looks.next(now).max(start.min(Looks::LATEST))
    }

    fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn need(&self) -> Need {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Need {
            in_use: self.in_use,
            waiting: count(self.waiting.len()),
            starts: count(self.starts.len()),
            next: match self.waiting.len() {
                // A start that no attempt waits for yet may expire.
                0 => 0,
                _ => count(self.deferred.len().min(self.in_line)),
            },
        }
    }

    /// Nothing is left of it here.
    fn is_idle(&self) -> bool {
        self.in_use == 0
            && self.held == 0
            && self.waiting.is_empty()
            && self.in_line == 0
            && self.deferred.is_empty()
    }

    fn granted(&mut self, grant: Grant, starts: VecDeque<Duration>, until: Duration) {
        self.held = grant.held;
        self.keeps = grant.share;
        self.starts.extend(starts);
        self.until = until;
    }
}
