//! `cargo xtask chaos`: builds the programs and starts a chaos run, as root in a mount namespace of
//! its own with a small file system that the run may fill. The file system goes with the namespace,
//! however the run ends. And `cargo xtask failover`, a run without one.

use crate::{command, tree};
use std::path::PathBuf;
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
    let program = built("chaos")?;
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

/// Further arguments go to the run: `--case`, `--clients`, `--program`.
pub(crate) fn failover(arguments: &[&str]) -> Result<(), String> {
    command::run(Command::new(built("failover")?).args(arguments))
}

/// Builds the program under test and a run. Gives the run.
fn built(run: &str) -> Result<PathBuf, String> {
    crate::machine::prepare()?;
    let mut build = command::cargo();
    build.args([
        "build",
        "--profile",
        "chaos",
        "--workspace",
        "--all-features",
    ]);
    build.args(["--bin", "counterstep", "--bin", run]);
    command::run(&mut build)?;
    Ok(tree::top().join("target/chaos").join(run))
}
