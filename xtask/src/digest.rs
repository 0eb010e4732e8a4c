//! SHA-256 by the system's own `sha256sum`: this crate has no dependencies, and hashing hundreds of
//! megabytes of test programs with unoptimised code would take longer than some of the tests.

use crate::command;
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{LazyLock, Mutex, PoisonError};

const PROGRAM: &str = "sha256sum";
const DIGITS: usize = 64;
/// Files of one call: far below the longest command line that Linux takes.
const BATCH: usize = 256;

/// What the file system says of a file. A write to it changes this: no program can set the last
/// one, the time of the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Traits {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// Digests of this process: programs of a hundred megabytes are asked for several times.
static KNOWN: LazyLock<Mutex<HashMap<PathBuf, (Traits, String)>>> = LazyLock::new(Mutex::default);

/// The digests of files, in their order, as 64 hexadecimal digits.
pub(crate) fn of_files<P: AsRef<Path>>(files: &[P]) -> Result<Vec<String>, String> {
    // Looked at before they are read: what changes in between has other traits the next time.
    let traits: Vec<Traits> = files
        .iter()
        .map(|file| traits(file.as_ref()))
        .collect::<Result<_, _>>()?;
    let known = |index: &usize| {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(files[*index].as_ref())
            .is_some_and(|(known, _)| *known == traits[*index])
    };
    let unknown: Vec<usize> = (0..files.len()).filter(|index| !known(index)).collect();
    for batch in unknown.chunks(BATCH) {
        let mut command = command::at_top(PROGRAM);
        command
            .arg("--")
            .args(batch.iter().map(|index| files[*index].as_ref()));
        let found = read(&command::output(&mut command)?)?;
        if found.len() != batch.len() {
            return Err(format!(
                "`{PROGRAM}` gave {} digests for {} files",
                found.len(),
                batch.len()
            ));
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, digest) in batch.iter().zip(found) {
            known.insert(files[*index].as_ref().to_owned(), (traits[*index], digest));
        }
    }
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let digest = |file: &P| known.get(file.as_ref()).map(|(_, digest)| digest.clone());
    files
        .iter()
        .map(|file| digest(file).ok_or_else(|| format!("no digest of {}", file.as_ref().display())))
        .collect()
}

fn traits(file: &Path) -> Result<Traits, String> {
    let found = file
        .metadata()
        .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    let changed = (found.ctime(), found.ctime_nsec());
    Ok(Traits {
        device: found.dev(),
        inode: found.ino(),
        size: found.len(),
        changed,
    })
}

/// The digest of a text.
pub(crate) fn of_text(text: &str) -> Result<String, String> {
    let wrong = |error: std::io::Error| format!("`{PROGRAM}`: {error}");
    let mut child = command::at_top(PROGRAM)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(wrong)?;
    // Taken and dropped: the end of its input is what it waits for.
    let written = child
        .stdin
        .take()
        .map_or(Ok(()), |mut stdin| stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().map_err(wrong)?;
    written.map_err(wrong)?;
    let mut found = read(&String::from_utf8_lossy(&output.stdout))?;
    found
        .pop()
        .ok_or_else(|| format!("`{PROGRAM}` gave no digest"))
}

/// The digests in what it says: one a line, before the name. A name with odd characters has a
/// backslash before its line.
fn read(said: &str) -> Result<Vec<String>, String> {
    let digest = |line: &str| {
        let line = line.strip_prefix('\\').unwrap_or(line);
        let digest = line
            .get(..DIGITS)
            .filter(|digest| digest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        digest
            .map(str::to_owned)
            .ok_or_else(|| format!("`{PROGRAM}` gave no digest but `{line}`"))
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
        assert!(
            super::of_files(&["no/such/file"])
                .unwrap_err()
                .contains("no/such/file")
        );
    }
}
