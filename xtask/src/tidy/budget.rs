//! How much people wait for: the crates that the first build compiles, and the code of each crate of ours, as `budget.toml` has
//! them. What grows or shrinks by more than a tenth is written there again, with the reason in the commit. Must not build anything.

use super::{Found, Violation};
use crate::{command, size, tree};
use std::collections::{BTreeMap, BTreeSet};

const BUDGET: &str = "budget.toml";

/// The key of the crates that the first build compiles.
const TREE: &str = "crates-of-the-first-build";

/// A small crate may change by this much.
const FEW: usize = 30;

pub(super) fn check(files: &[String]) -> Found {
    let mut now = size::code_by_crate(files)?;
    now.retain(|place, _| place.starts_with("crates/") || is_own_crate(place));
    now.insert(TREE.to_owned(), first_build()?);
    differences(&tree::text(BUDGET)?, &now)
}

/// The others are examples and tests.
fn is_own_crate(place: &str) -> bool {
    ["bench", "xtask"].contains(&place)
}

/// The crates that `cargo build` of the README compiles, ours included.
fn first_build() -> Result<usize, String> {
    let mut cargo = command::cargo();
    cargo.args(["tree", "--offline", "--locked", "--edges", "normal,build"]);
    cargo.args([
        "--package",
        "counterstep",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    let listed = command::output(&mut cargo)?;
    let crates: BTreeSet<&str> = listed.lines().filter_map(name_and_version).collect();
    Ok(crates.len())
}

/// Without a path, and without the mark of one that was listed before.
fn name_and_version(line: &str) -> Option<&str> {
    let line = line.split(" (").next()?.trim();
    (!line.is_empty()).then_some(line)
}

fn differences(budget: &str, now: &BTreeMap<String, usize>) -> Found {
    let mut found = Vec::new();
    let mut named = BTreeSet::new();
    for (number, line) in (1..).zip(budget.lines()) {
        let Some((key, allowed)) = entry(line)? else {
            continue;
        };
        named.insert(key);
        let text = match now.get(key) {
            None => format!("`{key}` has no code any more: remove the line"),
            Some(now) if is_within(*now, allowed) => continue,
            Some(now) => format!(
                "`{key}` is {now} and no longer about {allowed}: make it smaller, or write the number here and the reason in the commit"
            ),
        };
        found.push(Violation::new(BUDGET, number, text));
    }
    let missing = now.iter().filter(|(key, _)| !named.contains(key.as_str()));
    found.extend(missing.map(|(key, now)| {
        Violation::new(
            BUDGET,
            1,
            format!("`{key}` is missing: add `\"{key}\" = {now}`"),
        )
    }));
    Ok(found)
}

/// Not further away than a tenth, in both directions.
fn is_within(now: usize, allowed: usize) -> bool {
    now.abs_diff(allowed) <= (allowed / 10).max(FEW)
}

/// A line `"KEY" = NUMBER`; `None`: a comment, or a blank one.
fn entry(line: &str) -> Result<Option<(&str, usize)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let read = || {
        let (key, number) = line.split_once(" = ")?;
        let key = key.strip_prefix('"')?.strip_suffix('"')?;
        Some((key, number.parse().ok()?))
    };
    read()
        .map(Some)
        .ok_or_else(|| format!("{BUDGET}: expected `\"KEY\" = NUMBER` and not `{line}`"))
}

#[cfg(test)]
mod tests {
    use super::{differences, first_build, is_within, name_and_version};
    use std::collections::BTreeMap;

    #[test]
    fn what_grows_or_shrinks_by_more_than_a_tenth_or_is_not_named_is_found() {
        let budget = "# why\n\n\"crates/api\" = 1000\n\"crates/ui\" = 100\n\"crates/gone\" = 7\n";
        let found = |api: usize, ui: usize| -> Vec<(usize, String)> {
            let now = [("crates/api", api), ("crates/ui", ui), ("crates/new", 5)];
            let now: BTreeMap<_, _> = now.map(|(key, lines)| (key.to_owned(), lines)).into();
            let found = differences(budget, &now).unwrap();
            found.into_iter().map(|it| (it.line, it.text)).collect()
        };
        let always = found(1100, 130);
        let lines: Vec<_> = always.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [5, 1], "{always:?}");
        assert!(
            always[0].1.contains("`crates/gone` has no code"),
            "{always:?}"
        );
        assert!(
            always[1].1.contains("add `\"crates/new\" = 5`"),
            "{always:?}"
        );
        for (api, ui, line) in [(1101, 100, 3), (899, 100, 3), (1000, 131, 4)] {
            let found = found(api, ui);
            assert!(found.iter().any(|it| it.0 == line), "{found:?}");
        }
        assert!(differences("crates/api = 1", &BTreeMap::new()).is_err());
    }

    #[test]
    fn a_crate_counts_once_however_often_it_is_listed() {
        for line in ["serde v1.0.2 (*)", "serde v1.0.2", "serde v1.0.2 (/a/path)"] {
            assert_eq!(name_and_version(line), Some("serde v1.0.2"));
        }
        assert_eq!(name_and_version(""), None);
        assert!(is_within(0, 30) && !is_within(0, 31));
        let crates = first_build().unwrap();
        assert!(crates > 100, "{crates}");
    }
}
