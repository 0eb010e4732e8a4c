//! `cargo xtask chaos` and `cargo xtask cluster`: builds the programs and starts a chaos run, as root in a mount namespace of
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

/// The programs of a run, built with the profile of long runs. Returns the folder in which they lie.
pub(crate) fn build(programs: &[&str]) -> Result<PathBuf, String> {
    crate::machine::prepare()?;
    let mut build = command::cargo();
    build.args([
        "build",
        "--profile",
        "chaos",
        "--workspace",
        "--all-features",
    ]);
    build.args(programs.iter().flat_map(|name| ["--bin", *name]));
    command::run(&mut build)?;
    Ok(tree::target().join("chaos"))
}

/// With faults of a cluster of NATS servers alone: none of them fills a disk.
pub(crate) fn of_cluster(arguments: &[&str]) -> Result<(), String> {
    let program = build(&["counterstep", "chaos"])?.join("chaos");
    let mut run = Command::new(program);
    command::run(run.arg("--nats-cluster").args(arguments))
}

/// Further arguments go to the run: `--seed`, `--minutes`, `--clients`, `--program`, `--soak`, `--samples`.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let program = build(&["counterstep", "chaos"])?.join("chaos");
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
    let program = build(&["counterstep", "failover"])?.join("failover");
    command::run(Command::new(program).args(arguments))
}
