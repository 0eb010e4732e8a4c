//! `cargo xtask guards`: whether the simulation notices when a guard is taken away. A guard is a condition that keeps an
//! invariant; `guard!` in the sources gives it a name. One build, with a variable that names the guard, in a folder of its own.

use crate::{command, simulate, tree};

/// Each guard, and the number in `docs/invariants.md` of what breaks without it.
const GUARDS: [(&str, &str); 6] = [
    ("accepted cancel", "2"),
    ("ack behind the turn", "14"),
    ("attempt in keys", "11"),
    ("attempts of a lost host", "2"),
    ("bound of recoveries", "17"),
    ("key of no other task", "12"),
];

/// Seeds within which the simulation has to notice.
const SEEDS: &str = "2000";

/// Takes away all guards, one after the other, or those with this in their names.
pub(crate) fn run(filter: Option<&str>) -> Result<(), String> {
    let built = tree::target().join("guards");
    let mut left = Vec::new();
    let chosen = |name: &str| filter.is_none_or(|filter| name.contains(filter));
    for (name, expected) in GUARDS.into_iter().filter(|(name, _)| chosen(name)) {
        let mut test = simulate::test(SEEDS);
        test.env("CARGO_TARGET_DIR", &built)
            .env("RUSTFLAGS", "--cfg counterstep_mutants")
            .env("RUST_BACKTRACE", "0");
        let output = test.env("COUNTERSTEP_REMOVED_GUARD", name).output();
        let output = output.map_err(|error| format!("{}: {error}", command::shown(&test)))?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        let fate = fate(output.status.success(), &text, expected);
        println!("{name}: {fate}");
        if !fate.starts_with("noticed") {
            left.push(name);
        }
    }
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("not noticed as expected: {}", left.join(", "))),
    }
}

/// What the run says: the first invariant that broke is the one that was expected, or not.
fn fate(passed: bool, text: &str, expected: &str) -> String {
    let broken = text.lines().find_map(|line| line.strip_prefix("broken: "));
    match broken {
        Some(broken) if broken.split(':').next() == Some(expected) => format!("noticed ({broken})"),
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
        let listed: BTreeSet<_> = GUARDS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(listed, named);
    }

    #[test]
    fn a_guard_counts_as_noticed_for_its_own_reason_only() {
        let broken = "running 1 test\nbroken: 12: two tasks\n";
        assert_eq!(fate(false, broken, "12"), "noticed (12: two tasks)");
        assert!(fate(false, broken, "2").starts_with("WRONG REASON"));
        assert!(fate(true, "ok", "2").starts_with("NOT NOTICED"));
        assert!(fate(false, "error: no such test", "2").starts_with("DOES NOT RUN"));
    }
}
