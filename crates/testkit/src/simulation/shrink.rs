//! A seed under which something does not hold, made small: fewer faults, tasks and processes, as long as the same invariant breaks.

use super::faults::{FaultId, Strike};
use super::run::{Part, ids, run};
use super::trace::Seconds;
use super::{Outcome, Setup};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// So long it is tried to make a seed smaller. Of a guard that is taken away, only the invariant is asked for.
const BUDGET: Duration = Duration::from_secs(if cfg!(counterstep_mutants) { 0 } else { 45 });

/// Seeds that are looked at for one that breaks the same with one task.
const NEIGHBOURS: u64 = 60;

/// Lines of the story: the last ones matter.
const MOST_LINES: usize = 80;

/// The number of the invariant, or its word. Of a whole history, the task stands before it.
fn kind(broken: &str) -> &str {
    let mut parts = broken.splitn(3, ": ");
    let first = parts.next().unwrap_or(broken);
    match first.contains(' ') {
        true => parts.next().unwrap_or(first),
        false => first,
    }
}

/// What a person reads of a seed that fails.
pub(super) fn story(outcome: &Outcome, setup: &dyn Fn(&mut Setup)) -> String {
    let (seed, part, runs) = smallest(outcome, setup);
    let told = run(seed, &part, true, setup);
    let mut story = String::new();
    for broken in &told.broken {
        let _ = writeln!(story, "broken: {broken}");
    }
    let names: Vec<_> = ids(&told.strikes).iter().map(FaultId::to_string).collect();
    let _ = writeln!(
        story,
        "seed {} (`.from({}).seeds(1)` runs it again), made smaller: of the faults of seed {seed} these {} are enough: {} ({runs} runs)",
        outcome.seed,
        outcome.seed,
        names.len(),
        names.join(" ")
    );
    for Strike {
        id,
        at,
        trouble,
        place,
    } in &told.strikes
    {
        let _ = writeln!(story, "  {} {id}: {trouble:?} at {place}", Seconds(*at));
    }
    let _ = writeln!(story, "{}", outcome.options);
    let left_out = told.lines.len().saturating_sub(MOST_LINES);
    if left_out > 0 {
        let _ = writeln!(story, "({left_out} earlier events are left out)");
    }
    for line in told.lines.iter().skip(left_out) {
        let _ = writeln!(story, "  {line}");
    }
    story
}

/// The seed and the smallest part of it that break the same, as far as they are found in time; and how many runs that took.
fn smallest(outcome: &Outcome, setup: &dyn Fn(&mut Setup)) -> (u64, Part, u32) {
    let began = Instant::now();
    let wanted = outcome.broken.first().map(|it| kind(it).to_owned());
    let mut runs = 0;
    let mut breaks = |seed: u64, part: &Part| {
        if began.elapsed() > BUDGET {
            return None;
        }
        runs += 1;
        let tried = run(seed, part, false, setup);
        let same = tried
            .broken
            .iter()
            .any(|it| Some(kind(it)) == wanted.as_deref());
        same.then_some(tried)
    };
    let mut seed = outcome.seed;
    let mut best = Part {
        faults: Some(ids(&outcome.strikes)),
        ..Part::default()
    };
    let Some(_) = breaks(seed, &best) else {
        return (seed, Part::default(), runs);
    };
    let sized = |tasks, hosts| Part {
        tasks,
        hosts,
        ..best.clone()
    };
    // Fewer tasks and processes first: each run is shorter then.
    let alone = [sized(Some(1), Some(1)), sized(Some(1), None)];
    let few = [sized(None, Some(1)), sized(Some(2), Some(2))];
    if let Some(part) = alone.iter().find(|part| breaks(seed, part).is_some()) {
        best = part.clone();
    } else if let Some((other, struck)) = (seed + 1..=seed + NEIGHBOURS).find_map(|other| {
        // With fewer tasks, calls have other numbers, and other faults strike: another seed may break the same with one task.
        let part = Part {
            tasks: Some(1),
            hosts: Some(1),
            ..Part::default()
        };
        Some((other, ids(&breaks(other, &part)?.strikes)))
    }) {
        seed = other;
        best = Part {
            faults: Some(struck),
            tasks: Some(1),
            hosts: Some(1),
            ..Part::default()
        };
    } else if let Some(part) = few.iter().find(|part| breaks(seed, part).is_some()) {
        best = part.clone();
    }
    let in_order = Part {
        in_order: true,
        ..best.clone()
    };
    if breaks(seed, &in_order).is_some() {
        best = in_order;
    }
    let mut size = best.faults.as_ref().map_or(0, BTreeSet::len).div_ceil(2);
    while size > 0 {
        let faults: Vec<FaultId> = best.faults.iter().flatten().copied().collect();
        let mut is_smaller = false;
        for at in (0..faults.len()).step_by(size) {
            let without = |id: &FaultId| !faults[at..(at + size).min(faults.len())].contains(id);
            let left: BTreeSet<_> = best
                .faults
                .iter()
                .flatten()
                .copied()
                .filter(without)
                .collect();
            if Some(&left) == best.faults.as_ref() {
                continue;
            }
            let part = Part {
                faults: Some(left),
                ..best.clone()
            };
            if let Some(tried) = breaks(seed, &part) {
                // Those that strike no more are gone, too.
                let struck = ids(&tried.strikes);
                best = Part {
                    faults: Some(struck),
                    ..part
                };
                is_smaller = true;
            }
        }
        if !is_smaller || size > 1 {
            size = if is_smaller { size } else { size / 2 };
        }
        if began.elapsed() > BUDGET {
            break;
        }
    }
    (seed, best, runs)
}
