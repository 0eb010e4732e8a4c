//! `cargo deny`: licences, bans and sources offline, advisories with a network. Rules stand in
//! `deny.toml`.

use crate::{command, tree};
use std::path::PathBuf;

/// The release that `deny.toml` was written for.
const VERSION: &str = "0.20.2";

pub(crate) fn offline() -> Result<(), String> {
    check(&["licenses", "bans", "sources"])
}

/// Apart from the rest: it needs a network, and its answer changes without a change of ours.
pub(crate) fn advisories() -> Result<(), String> {
    check(&["advisories"])
}

fn check(what: &[&str]) -> Result<(), String> {
    let program = program()?;
    // Errors only: the trees of all duplicate versions would bury them. `cargo deny check bans`
    // shows those in full.
    command::run(
        command::at_top(program)
            .args(["--log-level", "error", "check"])
            .args(what),
    )
}

fn program() -> Result<PathBuf, String> {
    if let Some(found) = command::on_path("cargo-deny") {
        return Ok(found);
    }
    let tools = tree::target().join("tools");
    let own = tools.join("bin").join("cargo-deny");
    if !own.is_file() {
        println!(
            "xtask: installing cargo-deny {VERSION} into {}",
            tools.display()
        );
        let args = [
            "install",
            "--quiet",
            "--locked",
            "cargo-deny",
            "--version",
            VERSION,
            "--root",
        ];
        command::run(command::cargo().args(args).arg(&tools))?;
    }
    Ok(own)
}
