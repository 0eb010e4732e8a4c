//! `cargo xtask test`: everything that the tests need, the tests, and one last line that sums them
//! up.
//!
//! All are built by one `cargo test`, for the whole workspace: a smaller selection would unify features differently and build
//! everything again. Then each test binary is run without cargo.

use crate::executables::{self, Executable};
use crate::memory_folder::MemoryFolder;
use crate::tally::Tally;
use crate::{command, dependencies, machine};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Test binaries at a time: many tests wait for servers, so that one binary seldom keeps two cores
/// busy. With three of them beside the system tests, times of single tests ran out; behind these there is one more.
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

/// Those that take longest start first, so that none is alone at the end; the others follow in the order of their names.
const LONGEST: &[&str] = &[
    SYSTEM,
    "engine",
    "tasks",
    "adapters",
    "api",
    "simulation",
    "macros",
    "unit tests of counterstep-kernel",
    "unit tests of xtask",
    "upkeep",
];

/// These wait for processes, servers and files for most of their time: so many of their tests run at a time, and of others as many as
/// there are cores.
const WAITS: [(&str, &str); 4] = [
    (SYSTEM, "6"),
    ("engine", "6"),
    ("adapters", "6"),
    ("api", "4"),
];

/// The tests over real processes, which wait most, and from the first to the last moment of a run.
const SYSTEM: &str = "system";

/// What tests build by a cargo of their own: the crates below the cases of the macro, and those below a new program. They are
/// built before the tests, so that each of these builds its own crates only.
const BUILD_MORE: [(&str, &[&str]); 2] = [
    (
        "macros",
        &[
            "declarations_fail_as_their_cases_say",
            "trybuild=cs0001_missing_undo",
        ],
    ),
    (
        SYSTEM,
        &[
            "--ignored",
            "system::new_program::what_its_ci_builds_is_built",
        ],
    ),
];

/// Runs all tests, or those with this in their names.
pub(crate) fn run(filter: Option<&str>) -> Result<(), String> {
    machine::prepare()?;
    dependencies::fetch()?;
    let built = match build() {
        Ok(built) => built,
        Err(error) => {
            let failed = Tally {
                failed: 1,
                ..Tally::default()
            };
            return close(failed, Some(error));
        }
    };
    if filter.is_none() {
        build_more(&built);
    }
    let temporary = MemoryFolder::make();
    let mut all = runs(&built, filter);
    if let Some(folder) = &temporary {
        let tests = all.iter_mut().flat_map(|run| &mut run.tests);
        tests.for_each(|test| {
            test.env("TMPDIR", folder.path());
        });
    }
    let began = Instant::now();
    let waiting = Mutex::new(all);
    let total = Mutex::new((Tally::default(), None));
    let run_all = |is_over: Option<Sender<()>>| {
        // The lock is given back before the run: in the head of a `while let` it would be
        // held throughout.
        let next = || lock(&waiting).pop_front();
        while let Some(mut run) = next() {
            let (tally, failure) = run.run();
            if let Some(is_over) = is_over.as_ref().filter(|_| run.title == SYSTEM) {
                // Its receiver waits until it has heard, or until no sender is left.
                let _ = is_over.send(());
            }
            let mut total = lock(&total);
            total.0.add(&tally);
            if total.1.is_none() {
                total.1 = failure;
            }
        }
    };
    std::thread::scope(|scope| {
        let (is_over, over) = channel();
        for _ in 0..SIDE_BY_SIDE {
            let is_over = is_over.clone();
            scope.spawn(|| run_all(Some(is_over)));
        }
        drop(is_over);
        scope.spawn(move || {
            // An error: nothing is left to run.
            if over.recv().is_ok() {
                run_all(None);
            }
        });
    });
    let (tally, failure) = total
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let took = began.elapsed().as_secs();
    println!("\nxtask: {took} s from the first test to the last");
    close(tally, failure)
}

/// Builds the tests, and the programs that the whole-system tests start.
fn build() -> Result<Vec<Executable>, String> {
    let built = executables::built(cargo_test().args(["--no-run", "--quiet"]))?;
    let built = built.ok_or("the tests cannot be built")?;
    if built.is_empty() {
        return Err("cargo names no test binary, and the workspace has some".to_owned());
    }
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
    command::run(&mut programs)?;
    Ok(built)
}

/// Builds what single tests would build while the others run. Where that fails, the test itself fails and says why.
fn build_more(built: &[Executable]) {
    for (name, arguments) in BUILD_MORE {
        for test in built.iter().filter(|it| it.test.as_deref() == Some(name)) {
            let mut test = test.command();
            test.arg("--exact").args(arguments);
            if let Err(error) = command::output(&mut test) {
                eprintln!("xtask: {error}");
            }
        }
    }
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

/// Some tests, one after the other.
struct Run {
    title: String,
    tests: Vec<Command>,
}

/// One run for each integration test, one for the unit tests of each package, and one for the examples in the
/// documentation. These come first: they ask cargo, which is free then.
fn runs(built: &[Executable], filter: Option<&str>) -> VecDeque<Run> {
    let mut by_name: BTreeMap<(usize, String), Vec<Command>> = BTreeMap::new();
    for executable in built {
        let units = || format!("unit tests of {}", executable.package);
        let name = executable.test.clone().unwrap_or_else(units);
        let place = LONGEST.iter().position(|long| *long == name);
        let mut test = executable.command();
        test.args(filter);
        if let Some((_, threads)) = WAITS.iter().find(|(waits, _)| *waits == name) {
            test.env("RUST_TEST_THREADS", threads);
        }
        let of_name = by_name.entry((place.unwrap_or(LONGEST.len()), name));
        of_name.or_default().push(test);
    }
    let tests = by_name
        .into_iter()
        .map(|((_, title), tests)| Run { title, tests });
    let mut documents = cargo_test();
    documents.arg("--doc").args(filter);
    let documents = Run {
        title: "documentation".to_owned(),
        tests: vec![documents],
    };
    [documents].into_iter().chain(tests).collect()
}

impl Run {
    /// Runs to the end, prints its output in one piece, and counts.
    fn run(&mut self) -> (Tally, Option<String>) {
        let started = Instant::now();
        let mut tally = Tally::default();
        let (mut lines, mut failure) = (Vec::new(), None);
        for test in &mut self.tests {
            let shown = command::shown(test);
            lines.push(format!("{shown}\n"));
            match collect(test, &mut lines) {
                Ok(true) => {}
                Ok(false) => failure = Some(format!("{shown} failed")),
                Err(error) => failure = Some(format!("{shown}: {error}")),
            }
        }
        lines.iter().for_each(|line| tally.read(line));
        let seconds = started.elapsed().as_secs();
        let mut out = std::io::stdout().lock();
        // A closed standard output (`| head`) is no reason to lose the count.
        let _ = writeln!(out, "\n== {} ({seconds} s)", self.title);
        for line in &lines {
            let _ = out.write_all(line.as_bytes());
        }
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
