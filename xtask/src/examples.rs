//! `cargo xtask examples`: each example is a program of its own, outside of the workspace. Builds and
//! tests all of them, without a network, with the versions of the workspace's lock file.

use crate::{command, outside, tree};
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "examples";
const LOCK: &str = "Cargo.lock";

pub(crate) fn run() -> Result<(), String> {
    let all = examples()?;
    if all.is_empty() {
        return Err(format!("`{FOLDER}` has no folder with a Cargo.toml"));
    }
    all.iter().try_for_each(|example| check(example))
}

/// The folders of all examples, in their order.
fn examples() -> Result<Vec<PathBuf>, String> {
    let folder = tree::top().join(FOLDER);
    let entries = fs::read_dir(&folder)
        .map_err(|error| format!("{} cannot be read: {error}", folder.display()))?;
    let mut all: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("Cargo.toml").is_file())
        .collect();
    all.sort();
    Ok(all)
}

fn check(example: &Path) -> Result<(), String> {
    // Cargo takes the versions that it finds, and drops from the copy what this example does not
    // use.
    tree::copy(&tree::top().join(LOCK), &example.join(LOCK))?;
    command::run(outside::cargo(example)?.args(["fmt", "--check"]))?;
    command::run(outside::cargo(example)?.args(["test", "--quiet", "--offline"]))
}
