//! `cargo xtask test`: everything that the tests need, the tests, and one last line that sums them
//! up.
//!
//! `cargo test` is called once for each test binary, always for the whole workspace: a smaller
//! selection would unify features differently and build everything again.

use crate::tally::Tally;
use crate::{command, dependencies, machine};
use cargo_metadata::{MetadataCommand, TargetKind};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Test binaries at a time: many tests wait for servers, so that one binary seldom keeps two cores
/// busy.
const SIDE_BY_SIDE: usize = 2;

/// The programs that the system tests start: those of `tests/src/program.rs`.
const PROGRAMS: [&str; 4] = [
    "counterstep",
    "counterstep-api",
    "counterstep-worker",
    "counterstep-reconciler",
];

/// How long the output may stay open after cargo itself has ended.
const GRACE: Duration = Duration::from_secs(5);

/// Those that take longest start first; the others follow in the order of their names.
const LONGEST: &[&str] = &["system", "macros", "tasks", "adapters"];

/// These wait for processes, servers and files for most of their time: more of them than there are
/// cores run at a time.
const WAITS: [&str; 3] = [SYSTEM, "engine", "adapters"];

/// The tests over real processes.
const SYSTEM: &str = "system";
const WAITING_THREADS: &str = "4";

/// Runs all tests, or those with this in their names.
pub(crate) fn run(filter: Option<&str>) -> Result<(), String> {
    machine::prepare()?;
    dependencies::fetch()?;
    if let Err(error) = build() {
        let failed = Tally {
            failed: 1,
            ..Tally::default()
        };
        return close(failed, Some(error));
    }
    let waiting = Mutex::new(runs(&names()?, filter));
    let total = Mutex::new((Tally::default(), None));
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                // The lock is given back before the run: in the head of a `while let` it would be
                // held throughout.
                let next = || lock(&waiting).pop_front();
                while let Some(mut run) = next() {
                    let (tally, failure) = run.run();
                    let mut total = lock(&total);
                    total.0.add(&tally);
                    if total.1.is_none() {
                        total.1 = failure;
                    }
                }
            });
        }
    });
    let (tally, failure) = total
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    close(tally, failure)
}

/// Builds the tests, and the programs that the whole-system tests start.
fn build() -> Result<(), String> {
    command::run(cargo_test().args(["--no-run", "--quiet"]))?;
    let mut programs = command::cargo();
    // The selection of `tests/src/program.rs`, which builds them when those tests are started by
    // hand.
    programs.args([
        "build",
        "--quiet",
        "--profile",
        "test",
        "--workspace",
        "--all-features",
        "--test",
        SYSTEM,
    ]);
    programs.args(PROGRAMS.iter().flat_map(|name| ["--bin", *name]));
    command::run(&mut programs)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn cargo_test() -> Command {
    let mut cargo = command::cargo();
    cargo.args(["test", "--workspace", "--all-features", "--no-fail-fast"]);
    cargo
}

/// Names of the workspace's integration tests, as cargo knows them.
fn names() -> Result<Vec<String>, String> {
    let mut cargo = command::cargo();
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata = MetadataCommand::parse(command::output(&mut cargo)?)
        .map_err(|error| format!("invalid answer of `cargo metadata`: {error}"))?;
    let targets = metadata.packages.into_iter().flat_map(|it| it.targets);
    let mut names: Vec<String> = targets
        .filter(|target| target.is_kind(TargetKind::Test))
        .map(|target| target.name)
        .collect();
    names.sort_by_key(|name| {
        (
            LONGEST
                .iter()
                .position(|long| long == name)
                .unwrap_or(LONGEST.len()),
            name.clone(),
        )
    });
    names.dedup();
    if names.is_empty() {
        Err("cargo names no integration test, and the workspace has some".to_owned())
    } else {
        Ok(names)
    }
}

struct Run {
    title: String,
    cargo: Command,
}

/// One run for each integration test, one for all unit tests, and one for the examples in the
/// documentation.
fn runs(names: &[String], filter: Option<&str>) -> VecDeque<Run> {
    let run = |title: &str, select: &[&str]| {
        let mut cargo = cargo_test();
        cargo.args(select).args(filter);
        Run {
            title: title.to_owned(),
            cargo,
        }
    };
    let tests = names.iter().map(|name| {
        let mut run = run(name, &["--test", name]);
        if WAITS.contains(&name.as_str()) {
            run.cargo.env("RUST_TEST_THREADS", WAITING_THREADS);
        }
        run
    });
    let units = run("unit tests", &["--lib", "--bins"]);
    let documents = run("documentation", &["--doc"]);
    tests.chain([units, documents]).collect()
}

impl Run {
    /// Runs to the end, prints its output in one piece, and counts.
    fn run(&mut self) -> (Tally, Option<String>) {
        let started = Instant::now();
        let mut tally = Tally::default();
        let shown = command::shown(&self.cargo);
        let mut lines = Vec::new();
        let ended = collect(&mut self.cargo, &mut lines);
        lines.iter().for_each(|line| tally.read(line));
        let seconds = started.elapsed().as_secs();
        let mut out = std::io::stdout().lock();
        // A closed standard output (`| head`) is no reason to lose the count.
        let _ = writeln!(out, "\n== {} ({seconds} s)", self.title);
        for line in &lines {
            let _ = out.write_all(line.as_bytes());
        }
        let failure = match ended {
            Ok(true) => None,
            Ok(false) => Some(format!("{shown} failed")),
            Err(error) => Some(format!("{shown}: {error}")),
        };
        if failure.is_some() && tally.failed == 0 {
            // A binary died before it could count: a line without a failure would be a lie.
            tally.failed = 1;
            let _ = writeln!(
                out,
                "xtask: no test reported a failure, but cargo did: counted as one"
            );
        }
        (tally, failure)
    }
}

/// Runs a command and keeps what it says on either stream. Returns whether it succeeded.
fn collect(command: &mut Command, lines: &mut Vec<String>) -> std::io::Result<bool> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (to, from) = std::sync::mpsc::channel();
    for stream in [
        child
            .stdout
            .take()
            .map(|stream| Box::new(stream) as Box<dyn std::io::Read + Send>),
        child
            .stderr
            .take()
            .map(|stream| Box::new(stream) as Box<dyn std::io::Read + Send>),
    ]
    .into_iter()
    .flatten()
    {
        let to = to.clone();
        std::thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while stream
                .read_until(b'\n', &mut line)
                .is_ok_and(|read| read > 0)
            {
                if to
                    .send(String::from_utf8_lossy(&line).into_owned())
                    .is_err()
                {
                    return;
                }
                line.clear();
            }
        });
    }
    drop(to);
    let mut ended = None;
    loop {
        // Not `recv`: a process that a test left behind holds the pipe open, and we would wait for
        // it without end.
        match from.recv_timeout(GRACE) {
            Ok(line) => lines.push(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) if ended.is_some() => {
                lines.push(
                    "xtask: a process that a test started still holds its output\n".to_owned(),
                );
                break;
            }
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => ended = child.try_wait()?,
        }
    }
    Ok(child.wait()?.success())
}

/// Prints the line that scripts look for, as the last one on standard output.
fn close(tally: Tally, failure: Option<String>) -> Result<(), String> {
    println!("\n{tally}");
    failure.map_or(Ok(()), Err)
}
