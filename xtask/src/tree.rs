//! Where the repository is, and which files belong to it.

use crate::command;
use std::path::{Path, PathBuf};

/// The repository's top. Cargo names our manifest's folder when it runs us; the path compiled in is
/// the next best guess.
pub(crate) fn top() -> PathBuf {
    let own = std::env::var("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&own)
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| top().join("target"), |dir| top().join(dir))
}

/// Every tracked file that is there, relative to the top, sorted.
pub(crate) fn files() -> Result<Vec<String>, String> {
    let mut files: Vec<String> =
        match command::output(command::at_top("git").args(["ls-files", "-z", "--cached"])) {
            Ok(listed) => listed
                .split('\0')
                .filter(|file| !file.is_empty())
                .map(str::to_owned)
                .collect(),
            // An unpacked archive without git is tested too: there, every file counts that is not a
            // build's.
            Err(_) => walk()?,
        };
    files.retain(|file| top().join(file).is_file());
    files.sort();
    // A conflict of a merge lists its file once for each side.
    files.dedup();
    Ok(files)
}

fn walk() -> Result<Vec<String>, String> {
    let (mut found, mut open) = (Vec::new(), vec![String::new()]);
    while let Some(folder) = open.pop() {
        let path = top().join(&folder);
        let entries = path
            .read_dir()
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let relative = if folder.is_empty() {
                name.clone()
            } else {
                format!("{folder}/{name}")
            };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && name != "target" && name != ".git" => {
                    open.push(relative)
                }
                Ok(kind) if kind.is_file() => found.push(relative),
                _ => {}
            }
        }
    }
    Ok(found)
}

/// Where a path of the repository leads when links on the way are followed.
pub(crate) fn target_of_links(path: &str) -> String {
    let whole = |path: PathBuf| path.canonicalize().ok();
    whole(top().join(path))
        .zip(whole(top()))
        .and_then(|(path, top)| Some(path.strip_prefix(top).ok()?.to_str()?.to_owned()))
        .unwrap_or_else(|| path.to_owned())
}

/// The text of a file of the repository.
pub(crate) fn text(file: &str) -> Result<String, String> {
    std::fs::read_to_string(top().join(file))
        .map_err(|error| format!("{file} cannot be read: {error}"))
}

/// Copies a file over another.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to)
        .map(drop)
        .map_err(|error| format!("{} cannot be copied: {error}", from.display()))
}
