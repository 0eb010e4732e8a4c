//! The spool of a process: an SQLite file in a folder that the processes of one data directory share.
//! Owns which file is whose. Must not know what an entry means.
//!
//! Each process has a file of its own, `0.db`, `1.db`, and so on: the first one that no living process
//! holds, and that has no results of task types which the process leaves to others. A lock on `0.lock`
//! says who holds it, which the kernel lets go with the process, however it ends. (Not a lock on the
//! database file: closing any descriptor of that would let go SQLite's own.) At its start a process also
//! takes over the entries of all other files that are held by none, so that those of a worker that does
//! not come back are not forgotten; but for those of types that it does not take.

mod rows;

use crate::new_folders::{make_folders, sync_name};
use async_trait::async_trait;
use counterstep_kernel::SealSecrets;
use counterstep_kernel::ports::{Spool, SpoolEntry, SpoolError, SpoolKey, SpoolStats};
use diesel::SqliteConnection;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Maximum number of processes that share a folder.
const MOST_FILES: u32 = 1_000;

/// A spool cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder, or a lock file in it.
    #[error("the folder of the spool, `{}`, cannot be used", .0.display())]
    Folder(PathBuf, #[source] io::Error),
    /// As many processes as there can be files have one.
    #[error("all {MOST_FILES} files in `{}` are in use", .0.display())]
    NoneFree(PathBuf),
    /// An SQLite file.
    #[error("the spool `{}` cannot be used: {why}; it may hold results that are not in the database yet", path.display())]
    Rows {
        /// Path of the file.
        path: PathBuf,
        /// The reason, as text.
        why: String,
    },
}

/// A spool on an SQLite file, until it is dropped. Cheap to clone.
#[derive(Debug, Clone)]
pub struct FileSpool(Arc<OpenFile>);

/// What makes a result of the spool one of ours.
#[derive(Debug, Clone)]
pub struct Sealing {
    /// The secrets, which no other account may read.
    pub secrets: SealSecrets,
    /// Whether results without a seal, which an older program has kept, are sealed now.
    pub accepts_unsealed: bool,
}

struct OpenFile {
    path: PathBuf,
    most_bytes: u64,
    seals: SealSecrets,
    /// Results whose seal was not valid at the start: they stay, and are not used.
    unsealed: HashSet<SpoolKey>,
    rows: Mutex<SqliteConnection>,
    stats: Mutex<SpoolStats>,
    /// Held as long as the process lives.
    _lock: File,
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl FileSpool {
    /// Opens a file in this folder, which is made where it is not there, and takes over what processes
    /// that are gone have left in others. `most_bytes`: of all entries together; what is taken over is
    /// kept also beyond it. `takes`: whether the process takes tasks of this type, as
    /// [`SpoolEntry::task_type`] names it; the results of others stay where they are. A result without a valid seal stays, too, and is not
    /// used: its step is in doubt once its lease is over.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        folder: &Path,
        most_bytes: u64,
        sealing: Sealing,
        takes: &dyn Fn(&str) -> bool,
    ) -> Result<Self, OpenError> {
        let failed = |error| OpenError::Folder(folder.to_owned(), error);
        // What lies there may be the payloads of tasks.
        make_folders(folder, 0o700).map_err(failed)?;
        let (number, mut rows, lock) = (0..MOST_FILES)
            .find_map(|number| own(folder, number, takes).transpose())
            .ok_or_else(|| OpenError::NoneFree(folder.to_owned()))??;
        let path = path_of(folder, number);
        // The entry of a new file in its folder is on the disk only after this.
        sync_name(&path).map_err(failed)?;
        for other in (0..MOST_FILES).filter(|other| *other != number) {
            if path_of(folder, other).exists()
                && let Some(_lock) = try_lock(folder, other).map_err(failed)?
            {
                take_over(&mut rows, &path_of(folder, other), takes)?;
            }
        }
        let Sealing {
            secrets: seals,
            accepts_unsealed,
        } = sealing;
        let unsealed = rows::unsealed(&mut rows, &seals, accepts_unsealed);
        let unsealed = unsealed.map_err(|error| unusable(&path, &error))?;
        for SpoolKey { task, step, .. } in &unsealed {
            tracing::error!(
                path = %path.display(), %task, %step,
                "a result in the spool has no valid seal, and is not used: where an older program has kept it, start once with --accept spool"
            );
        }
        let stats = rows::stats(&mut rows).map_err(|error| unusable(&path, &error))?;
        Ok(Self(Arc::new(OpenFile {
            path,
            most_bytes,
            seals,
            unsealed,
            rows: Mutex::new(rows),
            stats: Mutex::new(stats),
            _lock: lock,
        })))
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Does it on a thread that may block, and notes what the file holds then.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut SqliteConnection, &OpenFile) -> Result<T, rows::RowsError>
        + Send
        + 'static,
    ) -> Result<T, SpoolError> {
        let file = self.0.clone();
        let done = spawn_blocking(move || {
            let mut rows = lock(&file.rows);
            let done = work(&mut rows, &file);
            if let Ok(stats) = rows::stats(&mut rows) {
                *lock(&file.stats) = stats;
            }
            done
        });
        let done = done
            .await
            .map_err(|error| SpoolError::Failed(error.to_string()))?;
        done.map_err(SpoolError::from)
    }
}

#[async_trait]
impl Spool for FileSpool {
    async fn put(&self, entry: &SpoolEntry) -> Result<(), SpoolError> {
        let entry = entry.clone();
        self.with(move |rows, file| rows::put(rows, &entry, &file.seals, file.most_bytes))
            .await
    }

    async fn keys(&self) -> Result<Vec<SpoolKey>, SpoolError> {
        let mut keys = self.with(|rows, _| rows::keys(rows)).await?;
        keys.retain(|key| !self.0.unsealed.contains(key));
        Ok(keys)
    }

    async fn get(&self, key: &SpoolKey) -> Result<Option<SpoolEntry>, SpoolError> {
        let key = *key;
        self.with(move |rows, file| rows::get(rows, &key, &file.seals))
            .await
    }

    async fn remove(&self, key: &SpoolKey) -> Result<(), SpoolError> {
        let key = *key;
        let remove = move |rows: &mut SqliteConnection, _: &OpenFile| {
            rows::remove(rows, &key)?;
            rows::empty_log_of_none(rows)
        };
        self.with(remove).await
    }

    fn stats(&self) -> SpoolStats {
        *lock(&self.0.stats)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn path_of(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number}.db"))
}

/// `None`: a living process holds it.
fn try_lock(folder: &Path, number: u32) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.join(format!("{number}.lock")))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn unusable(path: &Path, error: &rows::RowsError) -> OpenError {
    OpenError::Rows {
        path: path.to_owned(),
        why: error.to_string(),
    }
}

/// Its number, its rows, and its lock, which is let go last.
type Own = (u32, SqliteConnection, File);

/// The file of this number, with its lock; `None`: a living process holds it, or it has results for others.
fn own(folder: &Path, number: u32, takes: &dyn Fn(&str) -> bool) -> Result<Option<Own>, OpenError> {
    let lock = try_lock(folder, number);
    let Some(lock) = lock.map_err(|error| OpenError::Folder(folder.to_owned(), error))? else {
        return Ok(None);
    };
    let path = path_of(folder, number);
    let unusable = |error: rows::RowsError| unusable(&path, &error);
    let mut rows = rows::open(&path).map_err(unusable)?;
    let is_own = rows::are_all(&mut rows, takes).map_err(unusable)?;
    Ok(is_own.then_some((number, rows, lock)))
}

/// Moves what this process takes from another file here, and removes the file where nothing is left in it.
fn take_over(
    rows: &mut SqliteConnection,
    other: &Path,
    takes: &dyn Fn(&str) -> bool,
) -> Result<(), OpenError> {
    let unusable = |error: rows::RowsError| unusable(other, &error);
    {
        let mut from = rows::open(other).map_err(unusable)?;
        rows::take(rows, &mut from, takes).map_err(unusable)?;
        let left = rows::stats(&mut from).map_err(unusable)?.entries;
        if left > 0 {
            let path = other.display();
            tracing::warn!(%path, left, "results of task types that this process does not take are left to other workers");
            return Ok(());
        }
    }
    // Those beside it are gone with its last connection, unless that ended badly.
    for suffix in ["", "-wal", "-shm"] {
        let mut path = other.as_os_str().to_owned();
        path.push(suffix);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(OpenError::Folder(other.to_owned(), error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
