//! `cargo xtask ci`: what must hold besides the tests. Every check runs, so that one round shows
//! all there is to do.

use crate::{command, deny, dependencies, examples, oldest_sqlite};
use std::time::Instant;

type Check = (&'static str, fn() -> Result<(), String>);

const CHECKS: &[Check] = &[
    ("format", format),
    ("lints", lints),
    ("program", program),
    ("licences", deny::offline),
    ("examples", examples::run),
    ("oldest SQLite", oldest_sqlite::run),
    ("dependencies", dependencies::run),
    ("documentation", documentation),
];

pub(crate) fn run() -> Result<(), String> {
    let mut failures = Vec::new();
    for (name, check) in CHECKS {
        let start = Instant::now();
        let verdict = match check() {
            Ok(()) => "ok",
            Err(why) => {
                failures.push(format!("{name}: {why}"));
                "FAILED"
            }
        };
        println!("xtask: {name} {verdict} ({} s)", start.elapsed().as_secs());
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}

fn format() -> Result<(), String> {
    command::run(command::cargo().args(["fmt", "--all", "--check"]))
}

fn lints() -> Result<(), String> {
    let args = [
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ];
    command::run(command::cargo().args(args))?;
    // As people build it first: without the servers, other lines of the code are compiled.
    command::run(command::cargo().args(["clippy", "--quiet", "--", "-D", "warnings"]))
}

/// What people run first, and the way they run it: cargo adds variables that the program must not
/// take for settings.
fn program() -> Result<(), String> {
    command::run(command::cargo().args(["run", "--quiet", "--", "--version"]))
}

fn documentation() -> Result<(), String> {
    let args = [
        "doc",
        "--quiet",
        "--workspace",
        "--all-features",
        "--no-deps",
    ];
    command::run(
        command::cargo()
            .args(args)
            .env("RUSTDOCFLAGS", "-Dwarnings"),
    )
}
