//! Walks a folder of objects one entry at a time, and removes one. Blocking: for `spawn_blocking`
//! only. Must not be given a path that did not come from a checked prefix.

use std::fs::ReadDir;
use std::io;
use std::path::{Path, PathBuf};

/// A file found by the walk.
#[derive(Debug)]
pub(super) struct FoundFile {
    /// Path of the file.
    pub(super) path: PathBuf,
    /// Bytes.
    pub(super) size_bytes: u64,
}

/// A walk through a folder, depth first. It holds one open folder a level and nothing else, however
/// many files there are. It shows half-done uploads too, and skips symbolic links: nothing here
/// makes them.
#[derive(Debug, Default)]
pub(super) struct Walk {
    open: Vec<ReadDir>,
}

impl Walk {
    /// Nothing there is an empty walk.
    pub(super) fn start(folder: &Path) -> io::Result<Self> {
        let mut walk = Self::default();
        walk.descend(folder)?;
        Ok(walk)
    }

    fn descend(&mut self, folder: &Path) -> io::Result<()> {
        match std::fs::read_dir(folder) {
            Ok(entries) => self.open.push(entries),
            // Removed since its parent was read, or never there.
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Iterator for Walk {
    type Item = io::Result<FoundFile>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let step = match self.open.last_mut()?.next() {
                None => {
                    self.open.pop();
                    continue;
                }
                Some(entry) => entry.and_then(|entry| Ok((entry.file_type()?, entry))),
            };
            let visited = step.and_then(|(kind, entry)| {
                if kind.is_dir() {
                    self.descend(&entry.path())?;
                } else if kind.is_file() {
                    return Ok(Some(FoundFile {
                        path: entry.path(),
                        size_bytes: entry.metadata()?.len(),
                    }));
                }
                Ok(None)
            });
            match visited {
                Ok(Some(found)) => return Some(Ok(found)),
                Ok(None) => {}
                Err(error) if is_gone(&error) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Removes a folder with all that is in it, and returns how many files there were.
pub(super) fn remove(folder: &Path) -> io::Result<u64> {
    let mut files = 0;
    // A put that still runs may add a file while the folder is emptied; a few rounds catch up with
    // it, and a put that goes on for longer fails at its rename because its folder is gone.
    for _ in 0..5 {
        for found in Walk::start(folder)? {
            match std::fs::remove_file(found?.path) {
                Ok(()) => files += 1,
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        match std::fs::remove_dir_all(folder) {
            Ok(()) => return Ok(files),
            Err(error) if is_gone(&error) => return Ok(files),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(
        "the folder fills up again while it is removed",
    ))
}

/// Removes the folders above `path` that are empty, up to `root`, which stays.
// `remove_dir` refuses a folder that is not empty, so a concurrent put loses nothing: at worst the
// folder that it has just made is gone before it opens its file in it, and then it makes the folder
// again.
pub(super) fn prune(path: &Path, root: &Path) {
    let mut folder = path.parent();
    while let Some(empty) = folder {
        if empty == root
            || !empty.starts_with(root)
            || std::fs::remove_dir(empty).is_err_and(|error| !is_gone(&error))
        {
            return;
        }
        folder = empty.parent();
    }
}

/// It is not there, or something on the way to it is not.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
