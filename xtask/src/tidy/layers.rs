//! Imports point down only: which crate of the workspace may depend on which.

use super::{Found, Violation};
use crate::tree;

/// What one crate may import of the others, with the `counterstep-` left off the names.
struct Layer {
    name: &'static str,
    /// In every build.
    below: &'static [&'static str],
    /// Behind a feature only: the shipped task types in the programs that come with them, and the command line of a
    /// service that is a library for the testkit too.
    optional: &'static [&'static str],
    /// For its tests, on top of the two above.
    tests: &'static [&'static str],
}

const PARTS: &[&str] = &[
    "contracts",
    "steps",
    "kernel",
    "macros",
    "adapters",
    "node",
    "operations",
    "ui",
    "api",
    "worker",
    "reconciler",
    "tasks",
];

const EVERYTHING: &[&str] = &[
    "contracts",
    "steps",
    "kernel",
    "macros",
    "adapters",
    "node",
    "operations",
    "ui",
    "api",
    "worker",
    "reconciler",
    "tasks",
    "counterstep",
    "testkit",
];

#[rustfmt::skip] // A table is read by its columns.
const LAYERS: &[Layer] = &[
    Layer { name: "contracts", below: &[], optional: &[], tests: &[] },
    Layer { name: "steps", below: &["contracts"], optional: &[], tests: &["macros"] },
    Layer { name: "kernel", below: &["contracts", "steps"], optional: &[], tests: &["macros", "testkit"] },
    // A procedural macro writes paths to `steps`, but runs in the compiler without it.
    Layer { name: "macros", below: &[], optional: &[], tests: &[] },
    Layer { name: "adapters", below: &["contracts", "steps", "kernel"], optional: &[], tests: &["macros", "reconciler", "testkit"] },
    Layer { name: "node", below: &["contracts", "steps", "kernel", "adapters"], optional: &[], tests: &["macros", "tasks", "testkit"] },
    // The API is one way to ask for them: HTTP is not known here.
    Layer { name: "operations", below: &["contracts", "steps", "kernel"], optional: &[], tests: &[] },
    // It gets the way to call the interface from the API, and knows its bodies.
    Layer { name: "ui", below: &["contracts"], optional: &[], tests: &[] },
    Layer { name: "api", below: &["contracts", "steps", "kernel", "node", "operations"], optional: &["tasks", "ui"], tests: &["adapters", "macros", "reconciler", "testkit"] },
    Layer { name: "worker", below: &["contracts", "steps", "kernel", "node"], optional: &["tasks"], tests: &["adapters", "macros", "testkit"] },
    Layer { name: "reconciler", below: &["contracts", "steps", "kernel"], optional: &["node", "tasks"], tests: &["adapters", "macros", "testkit"] },
    // What a user's own crate looks like.
    Layer { name: "tasks", below: &["steps", "macros"], optional: &[], tests: &["kernel", "testkit"] },
    Layer { name: "counterstep", below: PARTS, optional: &[], tests: &["testkit"] },
    Layer { name: "testkit", below: &["contracts", "steps", "kernel", "adapters", "reconciler"], optional: &[], tests: &["macros"] },
    Layer { name: "bench", below: EVERYTHING, optional: &[], tests: &[] },
    Layer { name: "macros-tests", below: &[], optional: &[], tests: &["steps", "macros"] },
    Layer { name: "tests", below: EVERYTHING, optional: &[], tests: &[] },
    Layer { name: "xtask", below: &[], optional: &[], tests: &[] },
];

pub(super) fn check(files: &[String]) -> Found {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.ends_with("/Cargo.toml")) {
        let text = tree::text(file)?;
        // A manifest that is no member (a fixture of a test) has its own rules.
        if text.lines().any(|line| line.trim() == "[workspace]") {
            continue;
        }
        found.extend(manifest(file, &text));
    }
    Ok(found)
}

fn manifest(file: &str, text: &str) -> Vec<Violation> {
    let name = text
        .lines()
        .find_map(|line| value(line, "name"))
        .unwrap_or_default();
    let Some(layer) = LAYERS.iter().find(|layer| layer.name == short(name)) else {
        let what = format!("`{name}` has no layer: give it a line in xtask/src/tidy/layers.rs");
        return vec![Violation::new(file, 1, what)];
    };
    let mut found = Vec::new();
    for entry in entries(text) {
        let Some(import) = imported(&entry.text) else {
            continue;
        };
        if !allowed(layer, short(&import), &entry) {
            found.push(Violation::new(file, entry.line, refusal(layer, &import)));
        }
    }
    found
}

/// One dependency as the manifest has it.
struct Entry {
    line: usize,
    for_tests: bool,
    text: String,
}

/// Cargo's two spellings, `name = …` in a table of dependencies and a table `[dependencies.name]`,
/// made one.
fn entries(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let (mut section, mut own_table) = (String::new(), false);
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let entry = |section: &str, text| Entry {
            line: at + 1,
            for_tests: section.contains("dev-"),
            text,
        };
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_owned();
            let name = section
                .split_once("dependencies.")
                .map(|(_, name)| name.to_owned());
            own_table = name.is_some();
            entries.extend(name.map(|name| entry(&section, format!("{name} = "))));
        } else if own_table && let Some(last) = entries.last_mut() {
            last.text.push_str(line);
        } else if section.ends_with("dependencies") && line.contains('=') {
            entries.push(entry(&section, line.to_owned()));
        }
    }
    entries
}

fn refusal(layer: &Layer, import: &str) -> String {
    let mut below: Vec<&str> = layer.below.to_vec();
    below.extend(layer.optional);
    let may = if below.is_empty() {
        "nothing of the workspace".to_owned()
    } else {
        below.join(", ")
    };
    format!(
        "`{}` must not import `{import}`: imports point down only, and it may import {may} \
         (for tests and behind features see xtask/src/tidy/layers.rs)",
        layer.name
    )
}

fn allowed(layer: &Layer, import: &str, entry: &Entry) -> bool {
    let optional = entry.for_tests || entry.text.replace(' ', "").contains("optional=true");
    layer.below.contains(&import)
        || optional && layer.optional.contains(&import)
        || entry.for_tests && layer.tests.contains(&import)
}

/// The workspace crate that an entry names, renamed or not.
fn imported(entry: &str) -> Option<String> {
    let (key, rest) = entry.split_once('=')?;
    let key = key
        .trim()
        .split('.')
        .next()
        .unwrap_or_default()
        .trim_matches('"');
    let package = rest
        .split("package")
        .nth(1)
        .and_then(|rest| rest.split('"').nth(1))
        .unwrap_or(key);
    let is_ours =
        package == "xtask" || package == "counterstep" || package.starts_with("counterstep-");
    is_ours.then(|| package.to_owned())
}

fn short(package: &str) -> &str {
    package.strip_prefix("counterstep-").unwrap_or(package)
}

fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = line
        .trim()
        .strip_prefix(key)?
        .trim_start()
        .strip_prefix('=')?;
    rest.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::manifest;

    fn violations(name: &str, dependencies: &str) -> Vec<usize> {
        let text = format!("[package]\nname = \"{name}\"\n{dependencies}");
        manifest("Cargo.toml", &text)
            .iter()
            .map(|violation| violation.line)
            .collect()
    }

    #[test]
    fn an_import_that_points_up_is_found_however_it_is_written() {
        assert_eq!(
            violations(
                "counterstep-kernel",
                "[dependencies]\ncounterstep-contracts.workspace = true\n"
            ),
            [0; 0]
        );
        assert_eq!(
            violations(
                "counterstep-kernel",
                "[dependencies]\ncounterstep-node.workspace = true\n"
            ),
            [4]
        );
        assert_eq!(
            violations(
                "counterstep-kernel",
                "[dependencies]\nx = { package = \"counterstep-node\" }\n"
            ),
            [4]
        );
        assert_eq!(
            violations(
                "counterstep-kernel",
                "[dependencies.counterstep-node]\nworkspace = true\n"
            ),
            [3]
        );
        assert_eq!(
            violations(
                "counterstep-kernel",
                "[dependencies.x]\npackage = \"counterstep-node\"\n"
            ),
            [3]
        );
        let only_here = "[target.'cfg(unix)'.dependencies]\ncounterstep-node.workspace = true\n";
        assert_eq!(violations("counterstep-kernel", only_here), [4]);
    }

    #[test]
    fn what_authors_touch_knows_nothing_of_the_kernel_not_even_in_its_tests() {
        for table in ["dependencies", "dev-dependencies"] {
            let import = format!("[{table}]\ncounterstep-kernel.workspace = true\n");
            assert_eq!(violations("counterstep-steps", &import), [4], "{table}");
        }
    }

    #[test]
    fn shipped_task_types_come_behind_a_feature_only() {
        assert_eq!(
            violations(
                "counterstep-api",
                "[dependencies]\ncounterstep-tasks = { optional = true }\n"
            ),
            [0; 0]
        );
        assert_eq!(
            violations(
                "counterstep-api",
                "[dependencies]\ncounterstep-tasks.workspace = true\n"
            ),
            [4]
        );
    }

    #[test]
    fn tests_may_import_more_but_not_everything() {
        assert_eq!(
            violations(
                "counterstep-tasks",
                "[dev-dependencies]\ncounterstep-kernel.workspace = true\n"
            ),
            [0; 0]
        );
        assert_eq!(
            violations(
                "counterstep-macros",
                "[dependencies]\ncounterstep-steps.workspace = true\n"
            ),
            [4]
        );
        assert_eq!(
            violations(
                "counterstep-api",
                "[dev-dependencies]\ncounterstep-worker.workspace = true\n"
            ),
            [4]
        );
    }

    #[test]
    fn a_crate_without_a_layer_is_a_violation() {
        assert_eq!(violations("counterstep-novel", ""), [1]);
    }
}
