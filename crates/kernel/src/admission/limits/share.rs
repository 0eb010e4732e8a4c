//! What this process has of one limit: how many permits and starts, which attempts wait for them, and which of those gets one.
//! Must not read or write what the processes share.

use super::deferred::DeferredTasks;
use super::grant::{self, Grant, LimitValues, Need, Unused};
use super::key::LimitKey;
use crate::host::waiting_looks::Looks;
use crate::record::DbTime;
use futures::channel::oneshot;
use std::collections::VecDeque;
use std::time::Duration;

/// Tasks that wait with a slot but without a lease: at most one in this number of a process's slots, ...
const SLOTS_IN_LINE: usize = 2;

/// ... and of those at most one in this number for one limit.
const LINES: usize = 2;

/// Who grants the permits of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backing {
    /// This process alone: all of them once, and nothing is exchanged.
    Process,
    /// A record that all processes share, for a lease.
    Leased,
}

/// What a process has of one limit.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) backing: Backing,
    pub(super) values: LimitValues,
    /// As declared; people may set others.
    pub(super) declared: LimitValues,
    pub(super) held: u32,
    /// By this process's timer: its permits are other processes' from then on.
    pub(super) until: Duration,
    pub(super) in_use: u32,
    /// Maximum number of permits that it keeps as they become free.
    pub(super) keeps: Option<u32>,
    /// By this process's timer, and by the database's clock.
    starts: VecDeque<(Duration, DbTime)>,
    /// Of the starts of the last grant, those that came too late since one was used.
    unused_from: Option<DbTime>,
    /// What the last grant with starts has left behind them.
    left_behind: Option<DbTime>,
    /// Each receives its start. Not a permit: where the attempt stops waiting at this moment, the permit would be dropped
    /// under the lock that its drop takes.
    pub(super) waiting: VecDeque<oneshot::Sender<Duration>>,
    pub(super) in_line: usize,
    pub(super) deferred: DeferredTasks,
    /// The last exchange left some without.
    pub(super) lacks_some: bool,
    /// When it is exchanged next, by this process's timer.
    pub(super) next_exchange: Duration,
    /// When a start is left again.
    pub(super) next_start: Duration,
    looks: Looks,
}

impl Share {
    /// `declared`: its values until they are read.
    pub(super) fn new(key: &LimitKey, declared: LimitValues) -> Self {
        let (backing, held, until) = match key.is_of_process() {
            true => (
                Backing::Process,
                declared.at_once.unwrap_or(u32::MAX),
                Duration::MAX,
            ),
            false => (Backing::Leased, 0, Duration::ZERO),
        };
        Self {
            backing,
            values: declared,
            declared,
            held,
            until,
            in_use: 0,
            keeps: None,
            starts: VecDeque::new(),
            unused_from: None,
            left_behind: None,
            waiting: VecDeque::new(),
            in_line: 0,
            deferred: DeferredTasks::default(),
            lacks_some: false,
            // What a process grants itself never is.
            next_exchange: until,
            next_start: Duration::ZERO,
            looks: Looks::default(),
        }
    }

    /// Gives what there is to those that wait.
    pub(super) fn serve(&mut self, now: Duration) {
        self.forget_late_starts(now);
        self.waiting.retain(|waiting| !waiting.is_canceled());
        while !self.waiting.is_empty() {
            let has_permit =
                self.values.at_once.is_none() || self.in_use < self.held && now < self.until;
            let start = match self.values.rate {
                Some(_) => self.starts.front().map(|(start, _)| *start),
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
                self.unused_from = None;
            }
        }
    }

    /// An attempt that starts late would come too soon before the next one.
    pub(super) fn forget_late_starts(&mut self, now: Duration) {
        while let Some((start, at)) = self.starts.front()
            && now.saturating_sub(*start) > grant::AHEAD
        {
            self.unused_from.get_or_insert(*at);
            self.starts.pop_front();
        }
    }

    /// Starts that others may have again: the exchange that has brought them took too long.
    pub(super) fn unused(&self) -> Option<Unused> {
        let (from, next) = self.unused_from.zip(self.left_behind)?;
        self.starts.is_empty().then_some(Unused { from, next })
    }

    /// Has it exchanged at once. `false`: it never is.
    pub(super) fn is_to_be_exchanged(&mut self) -> bool {
        let is_leased = self.backing == Backing::Leased;
        if is_leased {
            self.next_exchange = Duration::ZERO;
        }
        is_leased
    }

    /// Whether there is a permit that no attempt holds.
    pub(super) fn has_free(&self) -> bool {
        self.held > self.in_use
    }

    pub(super) fn is_used_up(&self) -> bool {
        match self.backing {
            Backing::Process => !self.has_free(),
            Backing::Leased => self.lacks_some,
        }
    }

    /// Whether one more deferred task finds its permit without a place in the line, beside those that are on their way to one.
    pub(super) fn starts_one_at_once(&self) -> bool {
        let free = self.held.saturating_sub(self.in_use);
        self.backing == Backing::Process
            && self.in_line < usize::try_from(free).unwrap_or(usize::MAX)
    }

    /// Whether one more may stand in its line, beside those in all lines of a process with this number of slots.
    pub(super) fn has_place(&self, taken: usize, slots: usize) -> bool {
        let places = (slots / SLOTS_IN_LINE).max(1);
        // One place is reserved for limits that may have permits.
        let kept_free = usize::from(self.is_used_up() && places > 1);
        taken + kept_free < places && self.in_line < (places / LINES).max(1)
    }

    /// The delay until a task that is not deferred is looked at again.
    pub(super) fn look_again(&mut self, now: Duration) -> Duration {
        let start = self.next_start.saturating_sub(now);
        self.looks.next(now).max(start.min(Looks::LATEST))
    }

    pub(super) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn need(&self) -> Need {
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
            unused: self.unused(),
        }
    }

    /// Nothing is left of it here.
    pub(super) fn is_idle(&self) -> bool {
        self.in_use == 0
            && self.held == 0
            && self.waiting.is_empty()
            && self.in_line == 0
            && self.deferred.is_empty()
    }

    /// `by_timer`: a time of the database by this process's timer.
    pub(super) fn granted(
        &mut self,
        grant: &Grant,
        until: Duration,
        by_timer: impl Fn(DbTime) -> Duration,
    ) {
        self.held = grant.held;
        self.keeps = grant.share;
        self.next_start = grant.next_start.map_or(Duration::ZERO, &by_timer);
        // Taken back, or of a grant before this one: other processes may have starts in between.
        self.unused_from = None;
        if !grant.starts.is_empty() {
            self.left_behind = grant.next_start;
        }
        let starts = grant.starts.iter();
        self.starts.extend(starts.map(|at| (by_timer(*at), *at)));
        self.until = until;
    }
}
