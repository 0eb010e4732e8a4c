//! Crates outside of the workspace, as its users' are, which are built by its checks.

use crate::{command, tree};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Cargo in the folder of such a crate. It builds into the target folder of the workspace and with
/// the workspace's profiles: what both depend on would be compiled again with others.
pub(crate) fn cargo(folder: &Path) -> Result<Command, String> {
    let profiles = tree::target().join("profiles.toml");
    fs::write(&profiles, text()?)
        .map_err(|error| format!("{} cannot be written: {error}", profiles.display()))?;
    let mut cargo = command::cargo();
    cargo
        .current_dir(folder)
        .arg("--config")
        .arg(profiles)
        .env("CARGO_TARGET_DIR", tree::target());
    Ok(cargo)
}

/// The profiles of builds for a look and for tests, as the workspace's manifest has them.
fn text() -> Result<String, String> {
    let manifest = tree::text("Cargo.toml")?;
    let range = manifest
        .find("\n[profile.dev]")
        .zip(manifest.find("\n[profile.chaos]"))
        .ok_or("Cargo.toml has no [profile.dev] before a [profile.chaos]")?;
    Ok(manifest[range.0..range.1].to_owned())
}
