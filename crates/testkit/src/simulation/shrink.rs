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

/// Of a task's id as it is written.
const TASK_LETTERS: usize = 36;

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
    let lines = of_what_broke(&told.broken, &told.lines);
    let left_out = told.lines.len() - lines.len();
    if left_out > 0 {
        let _ = writeln!(
            story,
            "({left_out} earlier events and those of other tasks are left out)"
        );
    }
    for line in lines {
        let _ = writeln!(story, "  {line}");
    }
    story
}

/// The last lines: of a longer story, those of the tasks and documents that are named in what broke, and the faults.
fn of_what_broke<'a>(broken: &[String], lines: &'a [String]) -> Vec<&'a String> {
    let mut kept: Vec<_> = lines.iter().collect();
    let words = broken
        .iter()
        .flat_map(|it| it.split(|letter: char| !letter.is_ascii_hexdigit() && letter != '-'));
    let tasks = words.filter(|word| word.len() == TASK_LETTERS);
    let quoted = broken
        .iter()
        .flat_map(|it| it.split('`').skip(1).step_by(2));
    let names: BTreeSet<_> = tasks.chain(quoted).collect();
    if kept.len() > MOST_LINES && !names.is_empty() {
        kept.retain(|line| {
            line.ends_with("(fault)") || names.iter().any(|name| line.contains(name))
        });
    }
    let left_out = kept.len().saturating_sub(MOST_LINES);
    kept.split_off(left_out)
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

#[cfg(test)]
mod tests {
    use super::{MOST_LINES, of_what_broke};

    #[test]
    fn of_a_longer_story_those_lines_are_kept_that_are_of_the_task_which_broke() {
        let (task, other) = (
            "019b76da-e468-76a5-a537-d2776998d702",
            "019b76da-bcd3-7767-b959-0ecaf2d1b582",
        );
        let deleted = format!("20.0 s reconciler deletes t/default/{task}/ (1)");
        let fault = "21.0 s world the database answers no process  (fault)".to_owned();
        let mut lines = vec![deleted.clone(), fault.clone()];
        lines.extend((0..MOST_LINES).map(|at| format!("{at} s worker 1 writes {other}")));
        let broken = [format!("11: task {task}: object missing")];
        assert_eq!(of_what_broke(&broken, &lines), [&deleted, &fault]);
        lines.insert(
            1,
            "20.5 s api 2 changes the document `bank` (limit)".to_owned(),
        );
        let document = ["23: api 2 changes the document `bank` (limit)".to_owned()];
        assert_eq!(of_what_broke(&document, &lines), [&lines[1], &fault]);
        lines.remove(1);
        // What names no task, and a story that is short, is shown with its last lines.
        let last = of_what_broke(&["deadlock".to_owned()], &lines);
        assert_eq!(
            (last.len(), last.last()),
            (MOST_LINES, lines.last().as_ref())
        );
        assert_eq!(of_what_broke(&broken, &lines[..3]).len(), 3);
    }
}
