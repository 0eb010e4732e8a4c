//! A seed under which something does not hold, made small: fewer faults, tasks and processes, as long as the same invariant breaks.

use super::faults::{FaultId, Strike};
use super::run::{Part, ids, run};
use super::trace::Seconds;
use super::{Outcome, Setup};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// So long it is tried to make a seed smaller.
const BUDGET: Duration = Duration::from_secs(45);

/// Lines of the story: the last ones matter.
const MOST_LINES: usize = 80;

/// The number of the invariant, or the first word.
fn kind(broken: &str) -> &str {
    broken.split_once(':').map_or(broken, |(number, _)| number)
}

/// What a person reads of a seed that fails.
pub(super) fn story(outcome: &Outcome, setup: &dyn Fn(&mut Setup)) -> String {
    let seed = outcome.seed;
    let (part, runs) = smallest(outcome, setup);
    let told = run(seed, &part, true, setup);
    let mut story = String::new();
    for broken in &told.broken {
        let _ = writeln!(story, "broken: {broken}");
    }
    let names: Vec<_> = ids(&told.strikes).iter().map(FaultId::to_string).collect();
    let _ = writeln!(
        story,
        "seed {seed} (`.from({seed}).seeds(1)` runs it again); of its {} faults these {} are enough: {} ({runs} runs)",
        ids(&outcome.strikes).len(),
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

/// The smallest part of a seed that breaks the same, as far as it is found in time; and how many runs that took.
fn smallest(outcome: &Outcome, setup: &dyn Fn(&mut Setup)) -> (Part, u32) {
    let began = Instant::now();
    let wanted = outcome.broken.first().map(|it| kind(it).to_owned());
    let mut runs = 0;
    let mut breaks = |part: &Part| {
        if began.elapsed() > BUDGET {
            return None;
        }
        runs += 1;
        let tried = run(outcome.seed, part, false, setup);
        let same = tried
            .broken
            .iter()
            .any(|it| Some(kind(it)) == wanted.as_deref());
        same.then_some(tried)
    };
    let mut best = Part {
        faults: Some(ids(&outcome.strikes)),
        ..Part::default()
    };
    let Some(_) = breaks(&best) else {
        return (Part::default(), runs);
    };
    // Fewer tasks and processes first: each run is shorter then.
    for part in [
        Part {
            tasks: Some(1),
            hosts: Some(1),
            ..best.clone()
        },
        Part {
            tasks: Some(1),
            ..best.clone()
        },
        Part {
            hosts: Some(1),
            ..best.clone()
        },
        Part {
            tasks: Some(2),
            hosts: Some(2),
            ..best.clone()
        },
    ] {
        if breaks(&part).is_some() {
            best = part;
            break;
        }
    }
    let in_order = Part {
        in_order: true,
        ..best.clone()
    };
    if breaks(&in_order).is_some() {
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
            if let Some(tried) = breaks(&part) {
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
    (best, runs)
}
