//! The embedded set of adapters: one database file, a folder for objects, a folder for scratch, and
//! no server.
//!
//! Must not decide anything about tasks. Several processes of one machine may open the same paths
//! at the same time.

use crate::file_signals::FileSignals;
use crate::folder::{FolderObjects, FolderScratch};
use crate::local::{LocalHints, LocalLocks};
use crate::local_queue::{LocalQueue, QueueOptions};
use crate::sqlite::{self, SqliteOptions, SqliteStore};
use crate::system::{SystemClock, SystemRandom};
use counterstep_kernel::ports::{Clock, InTheTurn, NoServices, Ports};
use futures::future::BoxFuture;
use std::path::PathBuf;
use std::sync::Arc;

/// Where everything lies. What does not exist is made.
#[derive(Debug, Clone)]
pub struct EmbeddedPaths {
    /// The SQLite file. SQLite keeps two more beside it (`-wal`, `-shm`), and its users a lock file
    /// (`-lock`), so its folder must be writable, and on a local file system: WAL does not work over
    /// a network share.
    pub database: PathBuf,
    /// The folder of the objects, one folder a bucket.
    pub objects: PathBuf,
    /// The folder of the local files between steps.
    pub scratch: PathBuf,
}

/// How the embedded adapters behave. The defaults are meant for use; tests shorten the waits.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// The database file.
    pub sqlite: SqliteOptions,
    /// The queue on its tasks.
    pub queue: QueueOptions,
    /// The timer of the process. The time of the database file is an option of the file.
    pub clock: Arc<dyn Clock>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            sqlite: SqliteOptions::default(),
            queue: QueueOptions::default(),
            clock: Arc::new(SystemClock::new()),
        }
    }
}

/// The embedded adapters could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The database file.
    #[error("the database file cannot be used")]
    Database(#[from] sqlite::OpenError),
    /// A folder cannot be made.
    #[error("the folder `{}` cannot be used", path.display())]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
}

/// Opens everything, and brings the database's schema up to date.
///
/// # Errors
/// [`OpenError`]; a database that a newer program has changed is refused and stays as it is.
pub fn open(
    paths: EmbeddedPaths,
    options: EmbeddedOptions,
) -> BoxFuture<'static, Result<Ports, OpenError>> {
    Box::pin(async move {
        let EmbeddedPaths {
            database: file,
            objects,
            scratch,
        } = paths;
        let store = SqliteStore::open(&file, options.sqlite).await?;
        let database = store.database();
        let clock = options.clock;
        let queue = LocalQueue::with_clock(database.clone(), options.queue, clock.clone());
        let objects = FolderObjects::open(&objects).map_err(|source| OpenError::Folder {
            path: objects,
            source,
        })?;
        let scratch = FolderScratch::open(&scratch).map_err(|source| OpenError::Folder {
            path: scratch,
            source,
        })?;
        Ok(Ports {
            store: store.into(),
            queue: Arc::new(queue),
            objects: Arc::new(objects),
            scratch: Arc::new(scratch),
            locks: Arc::new(LocalLocks::with_clock(&clock)),
            hints: Arc::new(LocalHints::with_clock(&clock)),
            signals: Arc::new(FileSignals::of(database.clone())),
            services: Arc::new(NoServices),
            steps: Arc::new(InTheTurn),
            clock,
            random: Arc::new(SystemRandom),
        })
    })
}
