//! The kernel, and what authors of tasks touch, know no database, broker, cache or web framework:
//! not by themselves, and not through another crate.

use super::{Found, Violation};
use crate::command;

/// What such a technology is called, whole or as the start of a name up to a `-` or `_`.
const FOREIGN: &[&str] = &[
    // Databases.
    "deadpool",
    "diesel",
    "libpq",
    "libsqlite3",
    "postgres",
    "tokio-postgres",
    "pq",
    "rusqlite",
    "sea",
    "sqlite",
    "sqlx",
    // Brokers and caches.
    "async-nats",
    "lapin",
    "nats",
    "rdkafka",
    "redis",
    "rslock",
    // The web and object stores.
    "actix",
    "aws",
    "axum",
    "h2",
    "hyper",
    "object_store",
    "reqwest",
    "rustls",
    "tonic",
    "tower",
    "warp",
];

/// The crates that are held to it, by the names of their folders.
const PURE: &[&str] = &["steps", "kernel"];

pub(super) fn check() -> Found {
    let mut found = Vec::new();
    for name in PURE {
        let package = format!("counterstep-{name}");
        let args = [
            "tree",
            "-p",
            &package,
            "-e",
            "normal",
            "--prefix",
            "none",
            "--all-features",
        ];
        let tree = command::output(command::cargo().args(args))?;
        found.extend(foreign(name, &tree));
    }
    Ok(found)
}

fn foreign(crate_name: &str, tree: &str) -> Vec<Violation> {
    let mut names: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| FOREIGN.iter().any(|foreign| is_of(name, foreign)));
    let says = |name: &&str| {
        let how = format!("cargo tree -p counterstep-{crate_name} -e normal --invert {name}");
        let what = format!(
            "the dependencies of `{crate_name}` include `{name}`: it belongs behind a port, in adapters (`{how}`)"
        );
        Violation::new(&format!("crates/{crate_name}/Cargo.toml"), 1, what)
    };
    names.iter().map(says).collect()
}

fn is_of(name: &str, foreign: &str) -> bool {
    name.strip_prefix(foreign)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

#[cfg(test)]
mod tests {
    use super::foreign;

    #[test]
    fn a_technology_is_found_however_deep_and_under_each_of_its_names() {
        let tree = "counterstep-kernel v0.1.0\nserde v1.0.0\ntokio-postgres v0.7.0\nhyper-util v0.1.0\ndiesel v2.3.0 (*)\n";
        let found: Vec<String> = foreign("kernel", tree)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            foreign(
                "kernel",
                "tracing v0.1.0\nhyperlink v1.0.0\nsearch v1.0.0\n"
            )
            .is_empty()
        );
    }
}
