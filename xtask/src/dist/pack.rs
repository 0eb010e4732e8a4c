//! Contents as the bytes of an archive: the same for the same contents, on each machine and at each time.

use flate2::{Compression, GzBuilder};
use std::collections::BTreeMap;

/// A file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    pub(super) is_program: bool,
}

impl File {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self {
            bytes: text.into().into_bytes(),
            is_program: false,
        }
    }
}

/// The files by their paths below the archive's folder: in the order of the map they are packed.
pub(super) type Contents = BTreeMap<String, File>;

/// `.tar.gz` of the contents, in this folder and with this time. Owner is 0, which is what an unpacking root would want.
pub(super) fn archive(folder: &str, contents: &Contents, seconds: u64) -> Result<Vec<u8>, String> {
    // Neither a time nor a name stands in the header of the compressed file.
    let compressed = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::best());
    let mut archive = tar::Builder::new(compressed);
    for (path, file) in contents {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(file.bytes.len() as u64);
        header.set_mode(if file.is_program { 0o755 } else { 0o644 });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(seconds);
        let added = archive.append_data(&mut header, format!("{folder}/{path}"), &*file.bytes);
        added.map_err(|error| format!("{path} cannot be packed: {error}"))?;
    }
    let compressed = archive
        .into_inner()
        .and_then(|compressed| compressed.finish());
    compressed.map_err(|error| format!("the archive cannot be compressed: {error}"))
}

/// The paths whose files differ, or that only one of them has.
pub(super) fn differing(first: &Contents, second: &Contents) -> Vec<String> {
    let paths = first
        .keys()
        .chain(second.keys().filter(|it| !first.contains_key(*it)));
    let differ = |path: &&String| first.get(*path) != second.get(*path);
    paths.filter(differ).cloned().collect()
}
