//! `cargo xtask index`: the page with every name that an installation has, and the place where it is explained. It is made of the
//! tables and headings of the other pages, and has no text of its own for a name.

use crate::tree;
use std::collections::BTreeSet;
use std::fmt::Write;

pub(crate) const PAGE: &str = "docs/index-of-names.md";

/// Where the names of a kind stand.
struct Source {
    kind: &'static str,
    page: &'static str,
    /// The heading of the tables; empty: all of the page.
    below: &'static str,
    from: From,
}

/// What is a name.
#[derive(Clone, Copy)]
enum From {
    /// Code in this column of each row, counted from nought, up to what `until` begins with.
    Column(usize, &'static [char]),
    /// Commands in the first column: the words in front of flags and of what stands for something else. The group of the first one is
    /// that of the others.
    Commands,
    /// The headings, up to a colon.
    Headings,
}

const SOURCES: [Source; 10] = [
    source("Commands", "commands.md", "", From::Commands),
    source("Settings", "settings.md", "", From::Column(2, &[])),
    source(
        "States of a task",
        "states.md",
        "## A task",
        From::Column(0, &[]),
    ),
    source(
        "States of a step",
        "states.md",
        "## A step",
        From::Column(0, &[]),
    ),
    source("Routes", "http.md", "## Routes", From::Column(0, &[])),
    source(
        "Problem codes",
        "http.md",
        "## Problems",
        From::Column(0, &[]),
    ),
    source(
        "Reasons of `why`",
        "http.md",
        "### Why a task does not go on",
        From::Column(0, &[]),
    ),
    source("Alarms", "playbook.md", "", From::Headings),
    source(
        "Metrics",
        "metrics.md",
        "## Metrics",
        From::Column(0, &['{']),
    ),
    source(
        "Diagnostics of the macro",
        "diagnostics.md",
        "",
        From::Headings,
    ),
];

const fn source(kind: &'static str, page: &'static str, below: &'static str, from: From) -> Source {
    Source {
        kind,
        page,
        below,
        from,
    }
}

/// Writes the page.
pub(crate) fn run() -> Result<(), String> {
    let text = page()?;
    std::fs::write(tree::top().join(PAGE), text)
        .map_err(|error| format!("{PAGE} cannot be written: {error}"))?;
    println!("{PAGE}");
    Ok(())
}

/// The text of the page.
pub(crate) fn page() -> Result<String, String> {
    let mut text = String::from(
        "# Index of names\n\nAfter this page you know where each name is explained that a log line, an answer or a settings file has.\n\n\
         Written by `cargo xtask index` from the tables and headings of the other pages.\n",
    );
    for source in &SOURCES {
        let found = names(source, &tree::text(&format!("docs/{}", source.page))?);
        if found.is_empty() {
            return Err(format!("docs/{} has no {}", source.page, source.kind));
        }
        let _ = write!(text, "\n## {}\n\n", source.kind);
        let links = found
            .iter()
            .map(|(name, anchor)| format!("[`{name}`]({}{anchor})", source.page));
        let links: Vec<_> = links.collect();
        let _ = writeln!(text, "{}", links.join(" ·\n"));
    }
    Ok(text)
}

/// Each name with the anchor of the heading above it, in the order of the alphabet.
fn names(source: &Source, page: &str) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let (mut anchor, mut is_below, mut is_code) = (String::new(), source.below.is_empty(), false);
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        if let Some(title) = line.strip_prefix('#').filter(|_| !is_code) {
            let title = title.trim_start_matches('#').trim();
            anchor = format!("#{}", slug(title));
            if !source.below.is_empty() {
                is_below = line == source.below;
            }
            let is_name = matches!(source.from, From::Headings) && line.starts_with("## ");
            let name = title.split(':').next().unwrap_or_default();
            if is_name && !name.contains(' ') {
                found.insert((name.to_owned(), anchor.clone()));
            }
        }
        let column = match source.from {
            From::Column(column, _) => column,
            From::Commands => 0,
            From::Headings => continue,
        };
        let cell = line
            .strip_prefix("| ")
            .and_then(|row| row.split(" | ").nth(column));
        let Some(cell) = cell.filter(|_| is_below) else {
            continue;
        };
        // Every second part stands between two signs of code. What begins with a slash goes on with the one before it.
        let codes = cell.split('`').skip(1).step_by(2);
        let codes: Vec<&str> = codes.filter(|code| !code.starts_with('/')).collect();
        let here = match source.from {
            From::Column(_, until) => codes
                .iter()
                .filter_map(|code| code.split(until).next())
                .map(|name| name.trim().to_owned())
                .collect(),
            _ => commands(&codes),
        };
        let here = here.into_iter().filter(|name| !name.is_empty());
        found.extend(here.map(|name| (name, anchor.clone())));
    }
    found
}

fn commands(codes: &[&str]) -> Vec<String> {
    let words = |code: &&str| -> Vec<String> {
        let is_word = |word: &&str| word.starts_with(|it: char| it.is_ascii_lowercase());
        let words = code.split(' ').take_while(is_word);
        words.map(str::to_owned).collect()
    };
    let all: Vec<Vec<String>> = codes.iter().map(words).collect();
    let is_group = all.iter().any(|words| words.len() > 1);
    let group = all
        .first()
        .and_then(|words| words.first())
        .filter(|_| is_group);
    let whole = |words: &Vec<String>| match group {
        Some(group) if !words.is_empty() && words.first() != Some(group) => {
            format!("{group} {}", words.join(" "))
        }
        _ => words.join(" "),
    };
    all.iter().map(whole).collect()
}

/// The anchor of a heading, as forges and mdBook make it.
fn slug(title: &str) -> String {
    let kept = title
        .chars()
        .filter(|it| it.is_alphanumeric() || " -_".contains(*it));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::{From, commands, names, page, slug, source};

    #[test]
    fn a_name_is_code_of_its_column_or_a_heading_and_leads_to_the_heading_above_it() {
        let text = "# All\n\n| code | |\n|---|---|\n| `early` | x |\n\n## Codes\n\n| code | |\n|---|---|\n| `b`, `a` | x `no` |\n\
                    | `c{x}` · `/resume` | |\n\n```\n# No heading\n```\n\n## After\n\n| `late` | |\n";
        let found = names(
            &source("Codes", "x.md", "## Codes", From::Column(0, &['{'])),
            text,
        );
        let found: Vec<_> = found
            .iter()
            .map(|(name, at)| format!("{name} {at}"))
            .collect();
        assert_eq!(found, ["a #codes", "b #codes", "c #codes"]);
        let headings = "## CS1: what is wrong\n\n## Further words\n\n### Deeper\n";
        let found = names(&source("Headings", "x.md", "", From::Headings), headings);
        let found: Vec<_> = found
            .iter()
            .map(|(name, at)| format!("{name} {at}"))
            .collect();
        assert_eq!(found, ["CS1 #cs1-what-is-wrong"]);
    }

    #[test]
    fn a_command_has_its_group_and_no_flags() {
        let of = |codes: &[&str]| commands(codes).join(", ");
        assert_eq!(
            of(&["keys create", "list", "revoke ID"]),
            "keys create, keys list, keys revoke"
        );
        assert_eq!(of(&["api", "worker"]), "api, worker");
        assert_eq!(
            of(&["workers", "workers pause", "resume"]),
            "workers, workers pause, workers resume"
        );
        assert_eq!(of(&["reconciler --once", "--dry-run"]), "reconciler, ");
    }

    #[test]
    fn an_anchor_is_that_of_the_forge() {
        assert_eq!(
            slug("CS0003: `no_undo` gives no reason"),
            "cs0003-no_undo-gives-no-reason"
        );
    }

    #[test]
    fn each_kind_has_names() {
        let page = page().unwrap();
        for name in [
            "[`lease`](settings.md#",
            "[`dead_lettered`](states.md#a-task)",
            "[`DELETE /api/tasks/{id}`](http.md#routes)",
            "[`workers`](commands.md",
        ] {
            assert!(page.contains(name), "{name}\n{page}");
        }
    }
}
