//! A temporary folder for one test: the data that its processes share, their logs, and files of its
//! own.

use crate::sample::Sample;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// The folder; it goes when this does.
#[derive(Debug)]
pub struct Place {
    folder: TempDir,
    logs: AtomicUsize,
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    /// An empty one.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("counterstep-system-")
            .tempdir()
            .expect("a temporary folder");
        Self {
            folder,
            logs: AtomicUsize::new(0),
        }
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The `--data-dir` of its processes.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// The database of its processes.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.data().join("counterstep.db")
    }

    /// A new file for a log; the first two letters of its name say in which order processes were
    /// started.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        let number = self.logs.fetch_add(1, Ordering::Relaxed);
        self.path().join(format!("{number:02}-{name}.log"))
    }

    /// Writes a sample into a folder of its own, so that two of one name do not meet. Returns its
    /// path.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, folder: &str, sample: &Sample) -> PathBuf {
        let folder = self.path().join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(&sample.name);
        std::fs::write(&path, &sample.bytes).expect("a file");
        path
    }
}
