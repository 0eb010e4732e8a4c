//! The glossary has every word that users meet by name: states, problem codes, keys of declarations,
//! routes, fields of a task, commands, metrics.

use super::{Found, Violation};
use crate::tree;
use std::collections::BTreeSet;

const GLOSSARY: &str = "docs/glossary.md";

/// Where the words stand, and what comes before each when the lines are joined.
const SOURCES: &[(&str, &str)] = &[
    ("crates/contracts/src/state.rs", "= \""),
    ("crates/contracts/src/problem.rs", "= \""),
    ("crates/macros/src/parse.rs", "(\""),
    ("crates/api/src/routes/mod.rs", "(\"/api/"),
    ("crates/api/src/routes/metrics.rs", "(\""),
    ("crates/api/src/routes/metrics.rs", "registry,\""),
    ("crates/node/src/metrics/figures.rs", "register(\""),
    (
        "crates/node/src/metrics/figures.rs",
        "register_with_unit(\"",
    ),
    ("crates/node/src/metrics/breakers.rs", "register(\""),
];

/// Files of which the fields of views of a task, and the variants of commands, are such words.
const COMMANDS: &str = "crates/counterstep/src/cli/";
const VIEWS: &str = "crates/contracts/src/http.rs";

/// Beside the sources are scripts of shells.
fn is_of_commands(file: &str) -> bool {
    file.starts_with(COMMANDS) && file.ends_with(".rs")
}

/// Plain English, and words of HTTP: they mean here what they mean everywhere.
const PLAIN: &str = "
    authorization blocked close create forbidden off revoke unauthenticated
    add address age already at being beyond busy by change changeable changed created cross currency database declaration declared decrypt delete
    describe disable download enable ended erased file finish finished for found full gone high id in internal invalid kind large last late list long low
    malformed many media message migrate mismatch name new next no normal not of oldest on once operator park pass pause range read refuse renamed
    remove replace reset resume run satisfiable second secret service set setting show site slow storage submit such taken test too unavailable undone unsupported up upgrade
    updated verify watch way what when why
    allowed body cfg counterstep distributed error header method parameter requested";

pub(super) fn check(files: &[String]) -> Found {
    let glossary = tree::text(GLOSSARY)?;
    let known = entries(&glossary);
    let mut found = BTreeSet::new();
    for (file, mark) in SOURCES {
        let text: String = tree::text(file)?.lines().map(str::trim).collect();
        found.extend(after(&text, mark).flat_map(missing(&known)));
    }
    for file in files
        .iter()
        .filter(|file| is_of_commands(file) || *file == VIEWS)
    {
        let names = names(&tree::text(file)?)?;
        found.extend(names.iter().map(String::as_str).flat_map(missing(&known)));
    }
    let violation = |word: String| {
        let what = format!(
            "`{word}` has no entry: say what it means, or count it as plain in xtask/src/tidy/glossary.rs"
        );
        Violation::new(GLOSSARY, 1, what)
    };
    Ok(found.into_iter().map(violation).collect())
}

/// The entries and their words, each in the singular.
fn entries(glossary: &str) -> BTreeSet<String> {
    let bold = glossary
        .lines()
        .filter_map(|line| line.strip_prefix("| **")?.split_once("** |"));
    let terms = bold.flat_map(|(terms, _)| terms.split(", "));
    terms
        .flat_map(|term| {
            let words = term.split(' ').map(singular);
            words.chain([term.to_owned()]).collect::<Vec<_>>()
        })
        .chain(PLAIN.split_whitespace().map(str::to_owned))
        .collect()
}

fn singular(word: &str) -> String {
    match (word.strip_suffix("ies"), word.strip_suffix('s')) {
        (Some(stem), _) => format!("{stem}y"),
        (None, Some(stem)) if !stem.ends_with(['s', 'u']) => stem.to_owned(),
        _ => word.to_owned(),
    }
}

/// The words of a name that the glossary does not have, where it does not have the whole.
fn missing(known: &BTreeSet<String>) -> impl Fn(&str) -> Vec<String> + '_ {
    |name| {
        let name = name.replace(['-', '_'], " ");
        let words = name.split(' ').map(singular);
        match known.contains(&name) {
            true => Vec::new(),
            false => words.filter(|word| !known.contains(word)).collect(),
        }
    }
}

/// The names behind a mark, up to the closing quote; of a path its fixed segments.
fn after<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    let is_name = |name: &&str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'_' | b'-'))
    };
    text.split(mark)
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .flat_map(|found| found.split('/'))
        .filter(is_name)
}

/// The fields of the two views, and the variants of the commands in snake case.
fn names(text: &str) -> Result<Vec<String>, String> {
    let file = syn::parse_file(text).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for item in file.items {
        match item {
            syn::Item::Struct(it) if it.ident == "TaskView" || it.ident == "StepView" => {
                found.extend(
                    it.fields
                        .iter()
                        .filter_map(|it| Some(it.ident.as_ref()?.to_string())),
                );
            }
            syn::Item::Enum(it) if it.ident.to_string().ends_with("Command") => {
                found.extend(it.variants.iter().map(|it| snake(&it.ident.to_string())));
            }
            _ => {}
        }
    }
    Ok(found)
}

fn snake(name: &str) -> String {
    let parts = name.split_inclusive(|_: char| true).map(|letter| {
        let lower = letter.to_lowercase();
        if lower == letter {
            lower
        } else {
            format!("_{lower}")
        }
    });
    parts.collect::<String>().trim_start_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::{after, entries, missing, names};

    #[test]
    fn a_name_is_known_by_its_entry_or_by_its_words() {
        let known = entries("| **dead letter, retry** | ..\n| **in doubt** | ..\n");
        assert!(
            missing(&known)("last-retries").is_empty() && missing(&known)("in_doubt").is_empty()
        );
        assert_eq!(missing(&known)("retry_storms"), ["storm"]);
        let paths = after("f(\"/api/tasks/{id}/plan\",x)", "(\"/api/");
        assert_eq!(paths.collect::<Vec<_>>(), ["tasks", "plan"]);
        let code = "enum ACommand { DeadLetters(u8) } struct TaskView { task_id: u8 }";
        assert_eq!(names(code).unwrap(), ["dead_letters", "task_id"]);
    }
}
