//! `cargo xtask guards`: whether the simulation notices when a guard is taken away. A guard is a condition that keeps an
//! invariant; `guard!` in the sources gives it a name. One build, with a variable that names the guard, in a folder of its own.

use crate::{command, simulate, tree};

/// A condition that keeps an invariant.
struct Guard {
    name: &'static str,
    /// What goes on without it.
    without: &'static str,
    /// The number in `docs/invariants.md`, or the word, of what breaks then.
    breaks: &'static str,
    noticed: Noticed,
}

/// What was seen to notice that it is gone.
#[derive(Clone, Copy)]
enum Noticed {
    Simulation,
    /// A test of the suite: the seeds seldom have what it takes.
    Test(&'static str),
}

/// One that was seen to be noticed.
const fn seen(name: &'static str, without: &'static str, breaks: &'static str) -> Guard {
    Guard {
        name,
        without,
        breaks,
        noticed: Noticed::Simulation,
    }
}

/// One that a test of the suite notices.
const fn tested(
    name: &'static str,
    without: &'static str,
    breaks: &'static str,
    test: &'static str,
) -> Guard {
    Guard {
        noticed: Noticed::Test(test),
        ..seen(name, without, breaks)
    }
}

const GUARDS: [Guard; 25] = [
    tested(
        "abandoned request finds its task",
        "a client gets no answer, and the files of its task are deleted",
        "11",
        "`a_task_that_is_there_keeps_its_files_and_a_repetition_is_told_of_it`",
    ),
    seen(
        "accepted cancel",
        "the judge knows of no accepted cancel, and lets no host stop the task",
        "2",
    ),
    seen(
        "ack behind the turn",
        "a message is settled before its task is looked at",
        "14",
    ),
    seen(
        "attempt in keys",
        "two attempts of a step store their objects under one key",
        "11",
    ),
    seen(
        "attempts of a lost host",
        "what an older epoch left open stays open",
        "2",
    ),
    seen(
        "bound of recoveries",
        "a task that ends its host goes on without an end",
        "17",
    ),
    seen(
        "cancel of a running step",
        "a running step never hears that its task is cancelled",
        "15",
    ),
    seen(
        "children undone with their parent",
        "a parent counts as undone although its tasks have completed",
        "3",
    ),
    seen(
        "children with their parent",
        "a step counts tasks that are not there",
        "6",
    ),
    seen(
        "condemned request",
        "a submission keeps files that a sweep has deleted",
        "11",
    ),
    seen(
        "end of a process told to its steps",
        "a process that is to end waits for steps that last",
        "20",
    ),
    seen(
        "epoch of a heartbeat",
        "a host that has lost its task prolongs the lease of another one",
        "1",
    ),
    seen(
        "event until it is published",
        "an event leaves the outbox, and the broker did not take it",
        "14",
    ),
    seen(
        "key of no other task",
        "two requests with one key are two tasks",
        "12",
    ),
    tested(
        "lease of a permit",
        "an attempt goes on with a permit that is another host's by now",
        "limit",
        "`an_attempt_that_loses_its_permit_is_in_doubt_and_starts_again_with_one`",
    ),
    seen(
        "lease of another host",
        "a task is claimed while its host holds the lease",
        "8",
    ),
    seen(
        "lease that ran out",
        "a task is taken back from a host that has prolonged its lease",
        "8",
    ),
    seen(
        "lost lease told to steps",
        "a host goes on with a step that another one executes",
        "8",
    ),
    seen(
        "one stage at a time",
        "all undos of a task begin at once",
        "10",
    ),
    seen(
        "own change in the journal",
        "a change that was written, and followed by another, is decided again",
        "15",
    ),
    seen(
        "own change looked for",
        "a change that was written is decided again",
        "15",
    ),
    seen(
        "permit given back",
        "no permit is ever free again, and tasks wait for one",
        "limit",
    ),
    seen(
        "permits of others",
        "each process takes all permits of a limit",
        "limit",
    ),
    seen(
        "revision of a document",
        "a document is written over what another process has just written",
        "23",
    ),
    seen(
        "same key for each attempt",
        "a service does for each attempt what it is to do once",
        "16",
    ),
];

/// What no run of seeds notices, since something else holds it too: what that is, and the tests that notice.
const HELD: [(&str, &str, &str); 3] = [
    (
        "epoch of a change",
        "its revision, which each change of the epoch raises; a journal has one row of a revision",
        "`a_wrong_epoch_is_fenced_and_a_wrong_revision_is_stale`, of every adapter",
    ),
    (
        "revision of a change",
        "a journal has one row of a revision",
        "`a_wrong_epoch_is_fenced_and_a_wrong_revision_is_stale`, of every adapter",
    ),
    (
        "epoch of a kept result",
        "attempts are numbered over all epochs, and a take-back ends the open one",
        "`a_result_is_dropped_once_unless_it_is_written`",
    ),
];

/// Seeds within which the simulation has to notice.
const SEEDS: &str = "2000";

/// Where the page has the table.
const PAGE: &str = "docs/invariants.md";
const BEGIN: &str = "<!-- guards: written by `cargo xtask guards --table` -->\n";
const END: &str = "<!-- end of guards -->\n";

/// Takes away all guards, one after the other, or those with this in their names.
pub(crate) fn run(filter: Option<&str>) -> Result<(), String> {
    let built = tree::target().join("guards");
    let mut left = Vec::new();
    let chosen = |guard: &&Guard| filter.is_none_or(|filter| guard.name.contains(filter));
    for Guard {
        name,
        breaks,
        noticed,
        ..
    } in GUARDS.iter().filter(chosen)
    {
        if let Noticed::Test(test) = noticed {
            println!("{name}: {test}");
            continue;
        }
        let mut test = simulate::test();
        test.env("SIMULATE_FROM", "1")
            .env("SIMULATE_SEEDS", SEEDS)
            .env("CARGO_TARGET_DIR", &built)
            .env("RUSTFLAGS", "--cfg counterstep_mutants")
            .env("RUST_BACKTRACE", "0");
        let output = test.env("COUNTERSTEP_REMOVED_GUARD", name).output();
        let output = output.map_err(|error| format!("{}: {error}", command::shown(&test)))?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        let fate = fate(output.status.success(), &text, breaks);
        println!("{name}: {fate}");
        if !fate.starts_with("noticed") {
            left.push(*name);
        }
    }
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("not noticed as expected: {}", left.join(", "))),
    }
}

/// The table of the page.
fn table() -> String {
    let mut table = "| guard | without it | the simulation notices |\n|---|---|---|\n".to_owned();
    for Guard {
        name,
        without,
        breaks,
        noticed,
    } in &GUARDS
    {
        let seen = match noticed {
            Noticed::Simulation => String::new(),
            Noticed::Test(test) => format!("; seldom by a seed, so by {test}"),
        };
        table += &format!("| {name} | {without} | {breaks}{seen} |\n");
    }
    table += "\n| guard | what holds it too | what notices that it is gone |\n|---|---|---|\n";
    for (name, held, noticed) in &HELD {
        table += &format!("| {name} | {held} | {noticed} |\n");
    }
    table
}

/// The page around its table.
fn parts(page: &str) -> Result<(&str, &str, &str), String> {
    let parts = page.split_once(BEGIN).and_then(|(before, rest)| {
        let (table, after) = rest.split_once(END)?;
        Some((before, table, after))
    });
    parts.ok_or_else(|| format!("{PAGE} has no place for the table of guards"))
}

/// Writes the table into the page.
pub(crate) fn write_table() -> Result<(), String> {
    let page = tree::text(PAGE)?;
    let (before, _, after) = parts(&page)?;
    let path = tree::top().join(PAGE);
    let written = format!("{before}{BEGIN}\n{}\n{END}{after}", table());
    std::fs::write(&path, written).map_err(|error| format!("{}: {error}", path.display()))
}

/// Where the page has another table; `None`: it has this one.
pub(crate) fn misfit() -> Result<Option<(&'static str, usize)>, String> {
    let page = tree::text(PAGE)?;
    let (before, written, _) = parts(&page)?;
    let line = before.lines().count() + 1;
    Ok((written.trim() != table().trim()).then_some((PAGE, line)))
}

/// What the run says: the first invariant that broke is the one that was expected, or not.
fn fate(passed: bool, text: &str, expected: &str) -> String {
    let broken = text.lines().find_map(|line| line.strip_prefix("broken: "));
    match broken {
        // Of a whole history, the task stands before the number.
        Some(broken) if broken.split(": ").take(2).any(|it| it == expected) => {
            format!("noticed ({broken})")
        }
        Some(broken) => format!("WRONG REASON, expected {expected}: {broken}"),
        None if passed => format!("NOT NOTICED within {SEEDS} seeds"),
        None => format!("DOES NOT RUN: {}", text.lines().last().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::{GUARDS, fate};
    use crate::tree;
    use std::collections::BTreeSet;

    #[test]
    fn each_guard_of_the_sources_says_what_breaks_without_it() {
        let mut named = BTreeSet::new();
        for file in tree::files().unwrap() {
            if file.starts_with("crates/") && file.ends_with(".rs") {
                let text = tree::text(&file).unwrap();
                let names = text.split("guard!(").skip(1);
                let names = names.filter_map(|it| it.trim_start().strip_prefix('"'));
                named.extend(names.filter_map(|it| Some(it.split_once('"')?.0.to_owned())));
            }
        }
        let listed: BTreeSet<_> = GUARDS.iter().map(|guard| guard.name.to_owned()).collect();
        assert_eq!(listed, named);
    }

    #[test]
    fn a_guard_counts_as_noticed_for_its_own_reason_only() {
        let broken = "running 1 test\nbroken: 12: two tasks\n";
        assert_eq!(fate(false, broken, "12"), "noticed (12: two tasks)");
        let of_a_task = "broken: Trip 4711, BookSeat 4712 of step seats: 3: 12: it is not undone\n";
        assert!(fate(false, of_a_task, "3").starts_with("noticed"));
        assert!(fate(false, of_a_task, "12").starts_with("WRONG REASON"));
        assert!(fate(false, broken, "2").starts_with("WRONG REASON"));
        assert!(fate(true, "ok", "2").starts_with("NOT NOTICED"));
        assert!(fate(false, "error: no such test", "2").starts_with("DOES NOT RUN"));
    }
}
