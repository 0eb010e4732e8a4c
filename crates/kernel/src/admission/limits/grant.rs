//! What all processes share of a limit, and what one of them gets of it. Pure: the record, the clock of
//! the database, and what the process needs, to the next record and a grant.
//!
//! A process holds permits for a lease and renews them while it uses them, so that those of a process
//! that is gone are free after a lease. Starts of a rate are points of time, each given out once.

use crate::record::DbTime;
use counterstep_contracts::limit::Rate;
use counterstep_steps::guard;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Starts are given out so far ahead: a process that ends takes no more of a rate with it.
pub(crate) const AHEAD: Duration = Duration::from_millis(200);

/// The record of a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LimitState {
    /// The processes that hold permits or wait for some, by id.
    #[serde(default)]
    pub(crate) holders: BTreeMap<String, Holder>,
    /// The next start that a rate has left.
    #[serde(default)]
    pub(crate) next_start: Option<DbTime>,
}

/// A process that holds permits or waits for some.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// Number of permits that it holds.
    pub(crate) held: u32,
    /// Number of permits that it could use.
    pub(crate) wanted: u32,
    /// Until then, unless it renews.
    pub(crate) until: DbTime,
}

/// What a process needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    /// Permits in use.
    pub(crate) in_use: u32,
    /// Attempts that wait.
    pub(crate) waiting: u32,
    /// Starts that it has not used yet.
    pub(crate) starts: u32,
    /// Attempts that will wait as soon as those that wait now have theirs.
    pub(crate) next: u32,
    /// Starts that it was given last and that came too late for it.
    pub(crate) unused: Option<Unused>,
}

/// The last starts of a grant, which no attempt has used and none will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unused {
    /// The first of them.
    pub(crate) from: DbTime,
    /// What was left behind them.
    pub(crate) next: DbTime,
}

/// The values of a limit that are in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitValues {
    /// Maximum number of attempts at a time.
    pub(crate) at_once: Option<u32>,
    /// Maximum number of starts in a period.
    pub(crate) rate: Option<Rate>,
}

/// What a process gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Number of permits that it holds from now on; none of those in use is taken away.
    pub(crate) held: u32,
    /// Maximum number of permits that it keeps as they become free: other processes wait for theirs.
    pub(crate) share: Option<u32>,
    /// Starts, by the database's clock.
    pub(crate) starts: VecDeque<DbTime>,
    /// The next start that is left.
    pub(crate) next_start: Option<DbTime>,
}

impl LimitState {
    /// Whether a process holds a permit of it, or a start lies ahead.
    pub(crate) fn is_used(&self, now: DbTime) -> bool {
        let is_held = self.holders.values().any(|holder| holder.until > now);
        is_held || self.next_start.is_some_and(|next| next > now)
    }

    /// Gives a process what it needs, as far as there is some. Returns whether the record has changed.
    pub(crate) fn exchange(
        &mut self,
        process: &str,
        need: Need,
        values: LimitValues,
        now: DbTime,
        lease: Duration,
    ) -> (Grant, bool) {
        let before = self.clone();
        self.holders.retain(|_, holder| holder.until > now);
        // Where the database's clock was set back, a process that is gone would hold its permits until
        // that time has come again. One that is there renews them in time.
        for holder in self.holders.values_mut() {
            holder.until = holder.until.min(now.later(lease));
        }
        let wanted = need.in_use.saturating_add(need.waiting);
        let others = self.holders.iter().filter(|(id, _)| *id != process);
        let (taken, hungry) = others.fold((0u32, 0u32), |(taken, hungry), (_, holder)| {
            let lacks = u32::from(holder.wanted > holder.held);
            (taken.saturating_add(holder.held), hungry + lacks)
        });
        let taken = if guard!("permits of others", false) {
            0
        } else {
            taken
        };
        let (held, share) = match values.at_once {
            None => (wanted, None),
            Some(most) => {
                let share = (hungry > 0).then(|| most.div_ceil(hungry + 1).max(1));
                let free = most.saturating_sub(taken);
                let target = wanted.min(free).min(share.unwrap_or(u32::MAX));
                (target.max(need.in_use), share)
            }
        };
        // Permits are for those that wait now. Where a limit has none, the starts are all that there is.
        let could_start = match values.at_once {
            None => need.waiting.saturating_add(need.next),
            Some(_) => need.waiting.min(held.saturating_sub(need.in_use)),
        };
        if let Some(unused) = need.unused {
            self.give_again(unused, now);
        }
        let lacking = could_start.saturating_sub(need.starts);
        let starts = self.starts(lacking, values.rate, now);
        self.hold(process, held, wanted, values, now, lease);
        let grant = Grant {
            held,
            share,
            starts,
            next_start: values.rate.and(self.next_start),
        };
        (grant, *self != before)
    }

    /// Leaves the starts that a process could not use once more, unless a later one was given. As far ahead as may be: the next
    /// exchange may take as long as the one that brought them too late.
    fn give_again(&mut self, unused: Unused, now: DbTime) {
        if self.next_start == Some(unused.next) {
            let from = unused.from.max(now.later(AHEAD));
            self.next_start = Some(from.min(unused.next));
        }
    }

    fn hold(
        &mut self,
        process: &str,
        held: u32,
        wanted: u32,
        values: LimitValues,
        now: DbTime,
        lease: Duration,
    ) {
        if wanted == 0 || values.at_once.is_none() {
            self.holders.remove(process);
            return;
        }
        // Renewed with a change, or with half of the lease over: other looks only read.
        let kept = self.holders.get(process).filter(|holder| {
            holder.held == held && holder.wanted == wanted && holder.until.after(now) > lease / 2
        });
        if kept.is_none() {
            let until = now.later(lease);
            let holder = Holder {
                held,
                wanted,
                until,
            };
            self.holders.insert(process.to_owned(), holder);
        }
    }

    /// The next start that this rate has left.
    pub(crate) fn next_of(&self, rate: Rate, now: DbTime) -> DbTime {
        // A rate that was lower before may have left a start far ahead. One of this rate lies no further
        // ahead than this.
        let furthest = now.later(AHEAD.saturating_add(between(rate)));
        let next = self.next_start.map_or(now, |next| next.max(now));
        next.min(furthest)
    }

    fn starts(&mut self, lacking: u32, rate: Option<Rate>, now: DbTime) -> VecDeque<DbTime> {
        let mut starts = VecDeque::new();
        // Its next start stays: this process may not know yet of a rate that was set a moment ago.
        let Some(rate) = rate else {
            return starts;
        };
        let between = between(rate);
        let mut next = self.next_of(rate, now);
        while (starts.len() as u64) < u64::from(lacking) && next.after(now) <= AHEAD {
            starts.push_back(next);
            next = next.later(between);
        }
        if lacking > 0 || self.next_start.is_some_and(|next| next > now) {
            self.next_start = Some(next);
        }
        starts
    }
}

/// The time between two starts of a rate.
fn between(rate: Rate) -> Duration {
    // In whole microseconds, as the database's times are: rounded down it would be a higher rate.
    let micros = rate
        .per
        .as_micros()
        .div_ceil(u128::from(rate.starts))
        .max(1);
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);
    const NOW: DbTime = DbTime(1_000_000_000);

    fn need(in_use: u32, waiting: u32) -> Need {
        Need {
            in_use,
            waiting,
            starts: 0,
            next: 0,
            unused: None,
        }
    }

    fn at_once(most: u32) -> LimitValues {
        LimitValues {
            at_once: Some(most),
            rate: None,
        }
    }

    fn rate(starts: u32) -> LimitValues {
        let per = Duration::from_secs(1);
        LimitValues {
            at_once: None,
            rate: Some(Rate { starts, per }),
        }
    }

    #[test]
    fn no_more_permits_are_held_than_there_are() {
        let mut state = LimitState::default();
        let (a, _) = state.exchange("a", need(0, 7), at_once(10), NOW, LEASE);
        let (b, _) = state.exchange("b", need(0, 7), at_once(10), NOW, LEASE);
        assert_eq!((a.held, b.held), (7, 3));
        let (c, _) = state.exchange("c", need(0, 7), at_once(10), NOW, LEASE);
        assert_eq!(c.held, 0);
    }

    #[test]
    fn what_a_process_held_is_free_a_lease_after_it_was_last_seen() {
        let mut state = LimitState::default();
        state.exchange("gone", need(0, 10), at_once(10), NOW, LEASE);
        let before = NOW.later(LEASE - Duration::from_micros(1));
        let (b, _) = state.exchange("b", need(0, 1), at_once(10), before, LEASE);
        assert_eq!(b.held, 0);
        let (b, _) = state.exchange("b", need(0, 1), at_once(10), NOW.later(LEASE), LEASE);
        assert_eq!(b.held, 1);
    }

    #[test]
    fn a_process_keeps_what_it_uses_and_gives_back_the_rest_where_others_wait() {
        let mut state = LimitState::default();
        state.exchange("a", need(0, 20), at_once(10), NOW, LEASE);
        state.exchange("b", need(0, 20), at_once(10), NOW, LEASE);
        let (a, _) = state.exchange("a", need(10, 10), at_once(10), NOW, LEASE);
        assert_eq!((a.held, a.share), (10, Some(5)));
        let (a, _) = state.exchange("a", need(4, 10), at_once(10), NOW, LEASE);
        assert_eq!(a.held, 5);
        let (b, _) = state.exchange("b", need(0, 20), at_once(10), NOW, LEASE);
        assert_eq!(b.held, 5);
    }

    #[test]
    fn a_clock_that_was_set_back_prolongs_no_permit_beyond_a_lease() {
        let mut state = LimitState::default();
        let ahead = NOW.later(Duration::from_secs(3_600));
        state.exchange("gone", need(0, 10), at_once(10), ahead, LEASE);
        let (b, _) = state.exchange("b", need(0, 1), at_once(10), NOW, LEASE);
        assert_eq!(b.held, 0);
        let (b, _) = state.exchange("b", need(0, 1), at_once(10), NOW.later(LEASE), LEASE);
        assert_eq!(b.held, 1);
    }

    #[test]
    fn starts_that_are_given_out_ahead_are_no_reason_for_more() {
        for (starts, per, seconds) in [
            (1, "1s", 20),
            (5, "100ms", 10),
            (3, "1s", 20),
            (7, "10ms", 1),
        ] {
            let per = counterstep_contracts::retry::parse_duration(per).expect("a period");
            let values = LimitValues {
                at_once: None,
                rate: Some(Rate { starts, per }),
            };
            let (mut state, mut given) = (LimitState::default(), Vec::new());
            // At times that are no multiples of the period, and twice.
            for look in (0..seconds * 1_000_000).step_by(799) {
                let now = NOW.later(Duration::from_micros(look));
                for need in [need(0, 1), need(0, 1)] {
                    let (grant, _) = state.exchange("a", need, values, now, LEASE);
                    given.extend(grant.starts);
                }
            }
            let between = i64::try_from(per.as_micros()).expect("short");
            let most = usize::try_from(starts).expect("few");
            let too_soon = given
                .windows(most + 1)
                .find(|starts| starts[most].0 - starts[0].0 < between);
            assert_eq!(too_soon, None, "{starts} in {per:?}");
        }
    }

    #[test]
    fn a_start_that_was_not_used_is_given_again_unless_a_later_one_was_given() {
        let day = LimitValues {
            at_once: None,
            rate: Some(Rate {
                starts: 1,
                per: Duration::from_secs(24 * 3_600),
            }),
        };
        let mut state = LimitState::default();
        let (first, _) = state.exchange("a", need(0, 1), day, NOW, LEASE);
        assert_eq!(first.starts, [NOW]);
        let unused = Some(Unused {
            from: NOW,
            next: first.next_start.expect("tomorrow"),
        });
        let again = Need {
            unused,
            ..need(0, 1)
        };
        let later = NOW.later(Duration::from_secs(1));
        let (second, _) = state.exchange("a", again, day, later, LEASE);
        assert_eq!(second.starts, [later.later(AHEAD)]);
        // What it says of the first one holds no more.
        let (third, _) = state.exchange("a", again, day, later, LEASE);
        assert!(third.starts.is_empty());
        let (other, _) = state.exchange("b", need(0, 1), day, later, LEASE);
        assert!(other.starts.is_empty());
    }

    #[test]
    fn a_process_that_needs_nothing_leaves_the_record() {
        let mut state = LimitState::default();
        state.exchange("a", need(0, 1), at_once(1), NOW, LEASE);
        let (_, changed) = state.exchange("a", need(0, 0), at_once(1), NOW, LEASE);
        assert!(changed && state.holders.is_empty());
    }

    #[test]
    fn a_look_that_changes_nothing_is_not_written_before_half_of_the_lease() {
        let mut state = LimitState::default();
        state.exchange("a", need(0, 1), at_once(1), NOW, LEASE);
        let (_, changed) = state.exchange("a", need(1, 0), at_once(1), NOW.later(LEASE / 3), LEASE);
        assert!(!changed);
        let (_, changed) = state.exchange("a", need(1, 0), at_once(1), NOW.later(LEASE / 2), LEASE);
        assert!(changed);
    }

    #[test]
    fn a_lower_limit_takes_no_permit_that_is_in_use() {
        let mut state = LimitState::default();
        state.exchange("a", need(0, 10), at_once(10), NOW, LEASE);
        let (a, _) = state.exchange("a", need(10, 0), at_once(2), NOW, LEASE);
        assert_eq!(a.held, 10);
        let (b, _) = state.exchange("b", need(0, 1), at_once(2), NOW, LEASE);
        assert_eq!(b.held, 0);
    }

    #[test]
    fn starts_are_evenly_spaced_and_given_out_once() {
        let mut state = LimitState::default();
        let (a, _) = state.exchange("a", need(0, 3), rate(50), NOW, LEASE);
        let (b, _) = state.exchange("b", need(0, 2), rate(50), NOW, LEASE);
        let at = |n: u32| NOW.later(Duration::from_millis(20) * n);
        assert_eq!(a.starts, [at(0), at(1), at(2)]);
        assert_eq!(b.starts, [at(3), at(4)]);
    }

    #[test]
    fn those_that_will_wait_have_their_starts_already() {
        let mut state = LimitState::default();
        let need = Need {
            next: 3,
            starts: 1,
            ..need(0, 2)
        };
        let (a, _) = state.exchange("a", need, rate(50), NOW, LEASE);
        assert_eq!(a.starts.len(), 4);
        let both = LimitValues {
            at_once: Some(2),
            ..rate(50)
        };
        let (b, _) = state.exchange("b", Need { starts: 0, ..need }, both, NOW, LEASE);
        assert_eq!((b.held, b.starts.len()), (2, 2));
    }

    #[test]
    fn starts_are_not_given_out_far_ahead_nor_saved_up() {
        let mut state = LimitState::default();
        let (a, _) = state.exchange("a", need(0, 1000), rate(50), NOW, LEASE);
        assert_eq!(a.starts.len(), 11);
        let later = NOW.later(Duration::from_secs(60));
        let (a, _) = state.exchange("a", need(0, 1000), rate(50), later, LEASE);
        assert_eq!((a.starts.len(), a.starts[0]), (11, later));
    }

    #[test]
    fn a_process_that_does_not_know_of_a_rate_yet_forgets_no_start_of_it() {
        let mut state = LimitState::default();
        let daily = LimitValues {
            at_once: None,
            rate: Some(Rate {
                starts: 1,
                per: Duration::from_secs(24 * 3600),
            }),
        };
        let (a, _) = state.exchange("a", need(0, 1), daily, NOW, LEASE);
        assert_eq!(a.starts, [NOW]);
        state.exchange("b", need(0, 1), at_once(1), NOW, LEASE);
        let (a, _) = state.exchange("a", need(0, 1), daily, NOW, LEASE);
        assert!(a.starts.is_empty(), "{a:?}");
    }

    #[test]
    fn a_higher_rate_does_not_wait_for_a_start_of_the_lower_one() {
        let mut state = LimitState::default();
        let hourly = LimitValues {
            at_once: None,
            rate: Some(Rate {
                starts: 1,
                per: Duration::from_secs(3600),
            }),
        };
        state.exchange("a", need(0, 1), hourly, NOW, LEASE);
        let (a, _) = state.exchange("a", need(0, 1), rate(50), NOW, LEASE);
        assert!(
            a.next_start
                .is_some_and(|next| next.after(NOW) <= Duration::from_secs(1))
        );
    }
}
