//! The store on the oldest SQLite that its manifest allows, which another crate of a user's program
//! may choose. Its tests are those of the workspace: a second workspace of links to this one's
//! folders has a lock file of its own.

use crate::{command, tree};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;

const FOLDER: &str = "oldest-sqlite";
const CRATE: &str = "libsqlite3-sys";

/// What the copy of the manifest leads to.
const LINKS: &[&str] = &["bench", "crates", "deploy", "docs", "tests", "xtask"];

/// The tests of what is on an SQLite file, and the plans of its queries.
const TESTS: &[&str] = &["clock::", "embedded::", "spool::", "sqlite::"];

pub(crate) fn run() -> Result<(), String> {
    let folder = tree::target().join(FOLDER);
    fs::create_dir_all(&folder)
        .map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    for link in LINKS {
        match symlink(tree::top().join(link), folder.join(link)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(format!("{link} cannot be linked to: {error}"));
            }
            Ok(()) | Err(_) => {}
        }
    }
    for file in ["Cargo.toml", "Cargo.lock"] {
        tree::copy(&tree::top().join(file), &folder.join(file))?;
    }
    let oldest = oldest()?;
    command::run(cargo(&folder).args(["update", "--quiet", CRATE, "--precise", &oldest]))?;
    // With the features that the tests of the workspace have, and in their folder: all that does
    // not depend on SQLite is built already.
    let args = [
        "test",
        "--quiet",
        "--workspace",
        "--all-features",
        "--test",
        "adapters",
        "--",
    ];
    command::run(cargo(&folder).args(args).args(TESTS))
}

fn cargo(folder: &Path) -> std::process::Command {
    let mut cargo = command::cargo();
    cargo
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", tree::target())
        // Few tests that take seconds: to optimise our crates for them takes minutes.
        .env("CARGO_PROFILE_TEST_OPT_LEVEL", "0");
    cargo
}

/// The lower end of the range in the manifest.
fn oldest() -> Result<String, String> {
    let manifest = tree::text("Cargo.toml")?;
    manifest
        .lines()
        .find_map(|line| {
            line.strip_prefix(CRATE)?
                .split_once(">=")?
                .1
                .split_once(',')
        })
        .map(|(oldest, _)| oldest.to_owned())
        .ok_or_else(|| format!("Cargo.toml has no range of {CRATE} that begins with `>=`"))
}
