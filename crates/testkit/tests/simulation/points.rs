//! What runs of seeds have to reach, or they show nothing; and the seeds that are kept because together they reach all of it.

use counterstep_contracts::TaskStatus;
use counterstep_testkit::simulation::{Outcome, Trouble};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Where a run has to come by: changes by their events, and what happens around them.
pub(crate) const POINTS: [&str; 71] = [
    "bulk paused by a person",
    "bulk resumed",
    "bulk started",
    "cancel that no signal brings",
    "cancel_requested",
    "cancelled",
    "cancelled before a step",
    "cancelled between steps",
    "cancelled in a step",
    "children_submitted",
    "claimed",
    "completed",
    "condemned under a live upload",
    "dispatched",
    "duplicate nak",
    "failed",
    "fenced",
    "found without its message",
    "gave_up",
    "handed_over",
    "heartbeat of a lost lease",
    "limit set",
    "limit used up",
    "lost_too_often",
    "nak",
    "offered_again",
    "operator_redrove",
    "operator_resolved",
    "operator_retried_undo",
    "parent_undone",
    "paused beyond its lease",
    "progress of a delivery",
    "quarantine",
    "queue paused",
    "redelivered",
    "request in progress",
    "request of a disabled type",
    "request too slow",
    "request without an answer",
    "resolved by an operator",
    "result kept in the spool",
    "result_dropped",
    "retried by an operator",
    "signal accepted",
    "signal too late",
    "signal_received",
    "spool cleared",
    "spool replayed",
    "stale",
    "step_failed",
    "step_in_doubt",
    "step_redriven",
    "step_retries",
    "step_waits",
    "stopped",
    "taken back while paused",
    "taken_back",
    "two attempts at once",
    "type disabled",
    "undo_failed",
    "undo_gave_up",
    "undo_in_doubt",
    "undo_redriven",
    "undo_resolved",
    "undo_retries",
    "undo_started",
    "undo_waived",
    "unknown found in history",
    "unknown found in row",
    "unknown not written",
    "written late",
];

/// The row of an upload was written late, behind its sweep, and its submission accepted without its file.
const LATE: u64 = 3_674_539_885_014;

/// Seeds that together reach every point, and in which every kind of fault is felt, three times where 600 seeds have that
/// (`seeds_to_keep`). And 248, where a checker took a lease for live that a change had released whose answer came later, and
/// 920131, where a worker that started after the calendar was set back took a lease that ended early for a reconciler.
pub(crate) const KEPT: [u64; 31] = [
    3, 101, 154, 186, 199, 216, 245, 270, 287, 315, 318, 336, 352, 398, 402, 431, 461, 516, 539,
    571, 584, 586, 596, 606, 607, 626, 663, 689, 698, 920_131, LATE,
];

fn counted<'a, K: Ord>(all: impl Iterator<Item = (K, u64)> + 'a) -> BTreeMap<K, u64> {
    all.fold(BTreeMap::new(), |mut counted, (key, times)| {
        *counted.entry(key).or_default() += times;
        counted
    })
}

fn struck(outcomes: &[&Outcome]) -> BTreeMap<Trouble, u64> {
    let strikes = outcomes.iter().flat_map(|it| &it.strikes);
    counted(strikes.map(|strike| (strike.trouble, 1)))
}

fn felt(outcomes: &[&Outcome]) -> BTreeMap<Trouble, u64> {
    let felt = outcomes.iter().flat_map(|it| &it.felt);
    counted(felt.map(|(trouble, times)| (*trouble, *times)))
}

fn points(outcomes: &[&Outcome]) -> BTreeMap<String, u64> {
    let points = outcomes.iter().flat_map(|it| &it.points);
    counted(points.map(|(point, times)| (point.clone(), *times)))
}

/// What a run of seeds has come to.
pub(crate) fn summary(outcomes: &[Outcome], took: Duration) -> String {
    let all: Vec<_> = outcomes.iter().collect();
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let statuses = outcomes.iter().flat_map(|it| &it.statuses);
    let statuses: BTreeMap<TaskStatus, u64> =
        counted(statuses.map(|(status, tasks)| (*status, u64::from(*tasks))));
    format!(
        "{} seeds in {took:?}, {:?} a seed; {} polls, {} s of simulated time; tasks {statuses:?}\nfaults {:?}\nfelt {:?}\npoints {:?}",
        outcomes.len(),
        took / u32::try_from(outcomes.len().max(1)).unwrap_or(1),
        sum(|it| it.polls),
        sum(|it| it.lasted.as_secs()),
        struck(&all),
        felt(&all),
        points(&all),
    )
}

/// What a seed shows: kinds of faults that were felt in it, and points.
fn shown(outcome: &Outcome) -> BTreeSet<String> {
    let felt = outcome.felt.keys().map(|it| format!("{it:?}"));
    let known = |point: &&String| POINTS.contains(&&***point);
    let points = outcome.points.keys().filter(known).cloned();
    felt.chain(points).collect()
}

/// How often each has to be shown, where that can be had.
const OFTEN: usize = 3;

/// Some of these seeds, which together show all that they all show.
pub(crate) fn chosen(outcomes: &[Outcome]) -> Vec<u64> {
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    for thing in outcomes.iter().flat_map(shown) {
        *left.entry(thing).or_default() += 1;
    }
    left.values_mut()
        .for_each(|times| *times = OFTEN.min(*times));
    let mut chosen = BTreeSet::new();
    while left.values().any(|times| *times > 0) {
        let gain = |outcome: &&Outcome| {
            let all = shown(outcome);
            let wanted = all
                .iter()
                .filter(|it| left.get(*it).is_some_and(|times| *times > 0));
            wanted.count()
        };
        let others = outcomes.iter().filter(|it| !chosen.contains(&it.seed));
        let Some(best) = others.max_by_key(gain) else {
            break;
        };
        for thing in shown(best) {
            left.entry(thing)
                .and_modify(|times| *times = times.saturating_sub(1));
        }
        chosen.insert(best.seed);
    }
    chosen.into_iter().collect()
}

/// Each kind of fault has struck and was felt, and each point was reached.
///
/// # Panics
/// Where one was not: the run is void.
pub(crate) fn all_reached(outcomes: &[&Outcome]) {
    let (struck, felt, points) = (struck(outcomes), felt(outcomes), points(outcomes));
    let not_struck = Trouble::ALL.iter().filter(|it| !struck.contains_key(it));
    let not_felt = Trouble::ALL.iter().filter(|it| !felt.contains_key(it));
    let not_reached = POINTS.iter().filter(|it| !points.contains_key(**it));
    let missing: Vec<String> = not_struck
        .map(|it| format!("{it:?} has not struck"))
        .chain(not_felt.map(|it| format!("{it:?} was not felt")))
        .chain(not_reached.map(|it| format!("`{it}` was not reached")))
        .collect();
    assert!(
        missing.is_empty(),
        "void: {} of {} seeds",
        missing.join(", "),
        outcomes.len()
    );
}
