//! `cargo xtask test`: everything that the tests need, the tests, and one last line that sums them up.

use crate::tally::Tally;
use crate::{command, machine};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How long the output may stay open after cargo itself has ended.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) fn run(filter: Option<&str>) -> Result<(), String> {
    machine::prepare()?;
    let mut cargo = command::cargo();
    // All binaries run, so that the sum is the whole truth and not that of the first failure.
    cargo.args(["test", "--workspace", "--all-features", "--no-fail-fast"]).args(filter);
    let shown = command::shown(&cargo);
    let mut child = cargo
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{shown} does not start: {error}"))?;
    let output = child.stdout.take().ok_or("the output of cargo is not there")?;
    let (lines, read) = mpsc::channel();
    std::thread::spawn(move || pass_through(output, &lines));

    let mut tally = Tally::default();
    let mut ended = None;
    loop {
        // Not `recv`: a server that a test left behind holds the pipe open, and we would wait for it for ever.
        match read.recv_timeout(GRACE) {
            Ok(line) => tally.read(&line),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if ended.is_some() => {
                eprintln!("xtask: cargo has ended, but a process that a test started still holds its output");
                break;
            }
            Err(RecvTimeoutError::Timeout) => {
                ended = child.try_wait().map_err(|error| format!("{shown} cannot be waited for: {error}"))?;
            }
        }
    }
    let status = child.wait().map_err(|error| format!("{shown} cannot be waited for: {error}"))?;
    close(tally, status.success(), &format!("{shown} ended with {status}"))
}

/// Prints the line that scripts look for, as the last one on standard output.
fn close(mut tally: Tally, success: bool, how: &str) -> Result<(), String> {
    if !success && tally.failed == 0 {
        // It did not compile, or a binary died before it could count: a line without a failure would be a lie.
        tally.failed = 1;
        println!("\nxtask: no test reported a failure, but cargo did: counted as one");
    }
    println!("\n{tally}");
    if success { Ok(()) } else { Err(how.to_owned()) }
}

/// Prints each line at once and hands it on. Ends with the output, or when nobody listens any more.
fn pass_through(output: impl Read, lines: &mpsc::Sender<String>) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let mut stdout = std::io::stdout().lock();
        // A closed standard output (`| head`) is no reason to lose the count.
        let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
        if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
            return;
        }
        line.clear();
    }
}
