//! One command of the program, from its start to its end. For what goes on until it is told to stop
//! see `process`.

use crate::program::program;
use crate::wait::{LATER, PAUSE};
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None`: a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Ended {
    /// It ended with this code.
    ///
    /// # Panics
    /// When it did not; the message has all that it said.
    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "the exit code\n{self:#?}");
        self
    }

    /// Its standard error has this text in it.
    ///
    /// # Panics
    /// When it has not.
    #[track_caller]
    pub fn assert_says(&self, text: &str) -> &Self {
        assert!(
            self.stderr.contains(text),
            "`{text}` is not in standard error\n{self:#?}"
        );
        self
    }
}

/// `counterstep` with nothing of this process's settings: a variable on the developer's machine
/// must not decide a test. It listens on a free port where nothing else is said: the usual one may be in use.
#[must_use]
pub fn counterstep() -> Command {
    let mut command = without_settings(program());
    command.env("COUNTERSTEP_LISTEN", "127.0.0.1:0");
    command
}

/// A shell that runs a text in which `counterstep` is the program under test.
///
/// # Panics
/// When the program cannot be built.
#[must_use]
pub fn shell(text: &str) -> Command {
    let folder = program().parent().expect("a program lies in a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    let mut bash = without_settings("bash");
    bash.args(["-euc", text]).env(
        "PATH",
        std::env::join_paths(folders).expect("folders of a PATH"),
    );
    bash
}

/// Any program, likewise.
#[must_use]
pub fn without_settings(path: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(path);
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("COUNTERSTEP_"))
    {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// Runs `counterstep` with these arguments in a folder.
///
/// # Panics
/// When it does not end.
pub fn run(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = counterstep();
    command.args(arguments);
    to_its_end(folder, command)
}

/// Runs a command in a folder.
///
/// # Panics
/// When it does not end.
pub fn to_its_end(folder: &Path, command: Command) -> Ended {
    to_its_end_within(LATER, folder, command)
}

/// The same for a command that takes longer.
///
/// # Panics
/// When it does not end within the limit.
// Its output goes to files: a pipe that is not read while this waits would fill up and stop it.
pub fn to_its_end_within(limit: Duration, folder: &Path, mut command: Command) -> Ended {
    let outputs = tempfile::tempdir().expect("a temporary folder");
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| outputs.path().join(name));
    let file = |path: &Path| File::create(path).expect("a file for the output");
    let read = |path: &Path| {
        String::from_utf8_lossy(&std::fs::read(path).expect("the output")).into_owned()
    };
    let child = command
        .current_dir(folder)
        .stdout(file(&stdout))
        .stderr(file(&stderr))
        .spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let ended = exit_of(&mut child, limit);
    if ended.is_none() {
        let _ = child.kill().and_then(|()| child.wait());
        panic!(
            "{command:?} does not end; it said\n{}\n{}",
            read(&stdout),
            read(&stderr)
        );
    }
    Ended {
        code: ended.and_then(|status| status.code()),
        stdout: read(&stdout),
        stderr: read(&stderr),
    }
}

/// How a child ended; `None`: it runs for longer than the limit.
pub(crate) fn exit_of(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the state of a child") {
            return Some(status);
        }
        if started.elapsed() > limit {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}
