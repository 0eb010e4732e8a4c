//! Looks into finished archives: with the `zip` crate, and with a program that is not ours.

use crate::sample::Sample;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::io::{Cursor, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use zip::ZipArchive;

/// The archive holds these files byte for byte, under names that are all different, and nothing
/// else.
///
/// # Panics
/// When it does not.
pub fn assert_holds(archive: &[u8], samples: &[Sample]) {
    let mut archive = ZipArchive::new(Cursor::new(archive)).expect("it is an archive");
    let mut found = Vec::new();
    for at in 0..archive.len() {
        let mut entry = archive.by_index(at).expect("an entry of the archive");
        let name = entry.name().expect("a name in UTF-8").into_owned();
        let mut bytes = Vec::new();
        entry
            .read_to_end(&mut bytes)
            .expect("the entry can be read");
        found.push((name, Bytes::from(bytes)));
    }
    let names: BTreeSet<_> = found.iter().map(|(name, _)| name).collect();
    assert_eq!(
        names.len(),
        samples.len(),
        "as many names as files: {names:?}"
    );
    for (sample, (name, bytes)) in samples.iter().zip(&found) {
        // In the order in which they were sent; a second file of a name gets another one that
        // begins alike.
        let stem = sample.name.split('.').next().unwrap_or_default();
        assert!(
            name.starts_with(stem),
            "`{name}` is no name for `{}`",
            sample.name
        );
        // Not `assert_eq`: it would print megabytes.
        assert!(
            *bytes == sample.bytes,
            "`{name}` has {} bytes that differ",
            bytes.len()
        );
    }
}

/// `unzip -t` finds nothing wrong with the archive.
///
/// # Panics
/// When it does, and when there is no `unzip`: `cargo xtask test` installs it.
pub fn assert_unzip_accepts(archive: &Path) {
    let tested = Command::new("unzip")
        .arg("-t")
        .arg(archive)
        .stdin(Stdio::null())
        .output();
    let tested = tested.expect("`unzip` is installed: `cargo xtask test` sees to it");
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(
        tested.status.success(),
        "unzip -t: {}\n{said}",
        tested.status
    );
    assert!(said.contains("No errors detected"), "{said}");
}
