//! SHA-256 by the system's own `sha256sum`: this crate has no dependencies, and hashing hundreds of megabytes of test
//! programs with unoptimised code would take longer than some of the tests.

use crate::command;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

const PROGRAM: &str = "sha256sum";
const DIGITS: usize = 64;
/// Files of one call: far below the longest command line that Linux takes.
const BATCH: usize = 256;

/// The digests of files, in their order, as 64 hexadecimal digits.
pub(crate) fn of_files<P: AsRef<Path>>(files: &[P]) -> Result<Vec<String>, String> {
    let mut all = Vec::with_capacity(files.len());
    for batch in files.chunks(BATCH) {
        let mut command = command::at_top(PROGRAM);
        command.arg("--").args(batch.iter().map(AsRef::as_ref));
        let found = read(&command::output(&mut command)?)?;
        if found.len() != batch.len() {
            return Err(format!("`{PROGRAM}` gave {} digests for {} files", found.len(), batch.len()));
        }
        all.extend(found);
    }
    Ok(all)
}

/// The digest of a text.
pub(crate) fn of_text(text: &str) -> Result<String, String> {
    let wrong = |error: std::io::Error| format!("`{PROGRAM}`: {error}");
    let mut child = command::at_top(PROGRAM).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(wrong)?;
    // Taken and dropped: the end of its input is what it waits for.
    let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().map_err(wrong)?;
    written.map_err(wrong)?;
    let mut found = read(&String::from_utf8_lossy(&output.stdout))?;
    found.pop().ok_or_else(|| format!("`{PROGRAM}` gave no digest"))
}

/// The digests in what it says: one a line, before the name. A name with odd characters has a backslash before its line.
fn read(said: &str) -> Result<Vec<String>, String> {
    let digest = |line: &str| {
        let line = line.strip_prefix('\\').unwrap_or(line);
        let digest = line.get(..DIGITS).filter(|digest| digest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        digest.map(str::to_owned).ok_or_else(|| format!("`{PROGRAM}` gave no digest but `{line}`"))
    };
    said.lines().map(digest).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_text_has_the_digest_of_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(super::of_text("abc").unwrap(), abc);
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error() {
        assert!(super::of_files(&["no/such/file"]).unwrap_err().contains("no/such/file"));
    }
}
