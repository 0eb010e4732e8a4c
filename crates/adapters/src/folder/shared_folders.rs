//! Folders that several calls of this process may make at a time. Blocking: for `spawn_blocking` only. Must not remove any.

use crate::new_folders::{make, missing, sync_name};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// A folder that another call has made, and not yet synced, is synced by each call that needs it. Without that, what is
/// stored in it would be gone with it.
#[derive(Debug, Default)]
pub(super) struct SharedFolders(Mutex<Unsynced>);

#[derive(Debug, Default)]
struct Unsynced {
    /// With the number of the call that makes it: one that is removed meanwhile may be made again.
    folders: BTreeMap<PathBuf, u64>,
    calls: u64,
}

impl SharedFolders {
    /// Makes a folder and all above it, and brings their names to the disk.
    pub(super) fn make(&self, folder: &Path) -> io::Result<()> {
        let new = missing(folder);
        if !new.is_empty() {
            // Before they are made: a call that finds one there finds it here as well, until it is synced.
            let unsynced = &mut *self.0.lock();
            unsynced.calls += 1;
            let new = new.into_iter().map(|it| (it.to_owned(), unsynced.calls));
            unsynced.folders.extend(new);
        }
        make(folder, 0o777)?;
        for folder in folder.ancestors() {
            let made = self.0.lock().folders.get(folder).copied();
            if let Some(made) = made {
                sync_name(folder)?;
                let folders = &mut self.0.lock().folders;
                if folders.get(folder) == Some(&made) {
                    folders.remove(folder);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::SharedFolders;

    #[test]
    fn what_is_made_is_forgotten_once_it_is_synced_and_not_before() {
        let (top, folders) = (tempfile::tempdir().unwrap(), SharedFolders::default());
        let inner = top.path().join("a/b");
        folders.make(&inner).unwrap();
        assert!(inner.is_dir() && folders.0.lock().folders.is_empty());
        // Another call has made this one, and is about to sync it.
        folders.0.lock().folders.insert(top.path().join("a"), 7);
        folders.make(&inner).unwrap();
        assert!(folders.0.lock().folders.is_empty());
        // A file is in the way: what was not made is not taken for synced.
        std::fs::write(top.path().join("c"), "").unwrap();
        folders.make(&top.path().join("c/d")).unwrap_err();
        assert_eq!(folders.0.lock().folders.len(), 1);
    }
}
