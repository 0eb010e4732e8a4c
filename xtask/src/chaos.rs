//! `cargo xtask chaos`: builds the programs and starts a chaos run, as root in a mount namespace of
//! its own with a small file system that the run may fill. The file system goes with the namespace,
//! however the run ends.

use crate::{command, tree};
use std::process::Command;

/// Size of the small disk: databases, logs and objects of a run of an hour fit in twice.
const DISK: &str = "2g";

/// Mounts the small disk and becomes the run: everything of the run is to lie on it.
const ON_A_SMALL_DISK: &str = r#"set -e
folder="$(mktemp -d)"
mount -t tmpfs -o "size=$1" tmpfs "$folder"
chmod 1777 "$folder"
shift
program="$1"
shift
TMPDIR="$folder" exec "$program" --disk "$folder" "$@""#;

/// Further arguments go to the run: `--seed`, `--minutes`, `--clients`, `--program`.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    crate::machine::prepare()?;
    let mut build = command::cargo();
    build.args([
        "build",
        "--profile",
        "chaos",
        "--workspace",
        "--all-features",
        "--bin",
        "counterstep",
        "--bin",
        "chaos",
    ]);
    command::run(&mut build)?;
    let program = tree::top().join("target/chaos/chaos");
    if !crate::machine::is_root() {
        println!(
            "xtask: not root, so no small disk can be mounted: the disk is never full in this run"
        );
        return command::run(Command::new(program).args(arguments));
    }
    let mut unshared = Command::new("unshare");
    unshared.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        ON_A_SMALL_DISK,
        "sh",
        DISK,
    ]);
    command::run(unshared.arg(program).args(arguments))
}
