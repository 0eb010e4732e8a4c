//! What a schedule that is due is going to do: a pure function of its policies, its times, and
//! whether its last task still runs. The reconciler prints it, or carries it out.

use counterstep_contracts::retry::parse_duration;
use counterstep_contracts::{Misfire, Overlap, ScheduleSpec};
use counterstep_steps::schedule::When;
use counterstep_steps::times::DbTime;

/// Why a due time does not fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// It was not fired in time.
    Missed,
    /// The last task still runs.
    Overlaps,
    /// Its task type takes no submissions.
    Disabled,
    /// Its type refuses tasks beyond those that may be under way.
    TooManyAtOnce,
}

/// One change of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Submits the task of a due time. Those before it are skipped.
    Fire {
        /// The due time.
        due: DbTime,
        /// The next one.
        next: Option<DbTime>,
    },
    /// Submits nothing.
    Skip {
        /// The last due time that is skipped.
        due: DbTime,
        /// The next one.
        next: Option<DbTime>,
        /// Why it is skipped.
        why: SkipReason,
    },
    /// Changes nothing yet: the due time waits until the last task rests.
    Wait {
        /// The due time.
        due: DbTime,
    },
}

/// Plans for a schedule that has been due since `first`. `busy`: its last task has not come to
/// rest.
#[must_use]
pub fn moves(
    spec: &ScheduleSpec,
    when: &When,
    first: DbTime,
    now: DbTime,
    busy: bool,
) -> Vec<Move> {
    let most = usize::try_from(spec.catch_up_limit.max(1)).unwrap_or(usize::MAX);
    let mut due = when.newest(first, now, most);
    if due.is_empty() {
        // It was worked out by a program with other rules for its zone. It was announced, so it
        // stands.
        due.push(first);
    }
    let newest = due[due.len() - 1];
    // Behind now, too: a due time that was worked out otherwise may lie before some that fit.
    let next = when.after(newest.max(now));
    let grace = parse_duration(&spec.grace).unwrap_or_default();
    let in_time = due.iter().position(|due| due.later(grace) >= now);
    match (spec.misfire, in_time) {
        (Misfire::CatchUp, _) => {}
        (Misfire::FireOnce | Misfire::Skip, Some(at)) => drop(due.drain(..at)),
        (Misfire::FireOnce, None) => due = vec![newest],
        (Misfire::Skip, None) => {
            return vec![Move::Skip {
                due: newest,
                next,
                why: SkipReason::Missed,
            }];
        }
    }
    let behind = |at: usize| due.get(at + 1).copied().or(next);
    // What comes only once is not skipped: it would never come again.
    let waits = spec.overlap == Overlap::Queue || next.is_none();
    let fire = |at: usize| Move::Fire {
        due: due[at],
        next: behind(at),
    };
    let overlaps = |due: DbTime| match waits {
        true => Move::Wait { due },
        false => Move::Skip {
            due: newest,
            next,
            why: SkipReason::Overlaps,
        },
    };
    match (spec.overlap, busy) {
        (Overlap::Allow, _) => (0..due.len()).map(fire).collect(),
        (Overlap::Queue | Overlap::Skip, true) => vec![overlaps(due[0])],
        (Overlap::Queue | Overlap::Skip, false) => {
            // By the second one's turn the first one's task has only just been submitted.
            let second = due.get(1).map(|second| overlaps(*second));
            std::iter::once(fire(0)).chain(second).collect()
        }
    }
}
