//! The connections to one SQLite file, and the one way to use them: a closure on a thread that may
//! block, with a whole transaction in it. Must not know a table.

use super::clock::{FileClock, MachineClock, SystemClocks};
use super::deleted::{self, LogSince};
use super::fault::{Fault, is_busy};
use super::file_use::{FileUse, UseError, wait_for, wal_reset_bug};
use super::migrate;
use super::writer::{How, Writer};
use crate::blocking_calls::BlockingCalls;
use crate::new_folders::make_folders;
use deadpool::Runtime;
use deadpool::managed::{Manager, Metrics, Object, Pool, RecycleError, RecycleResult, Timeouts};
use diesel::connection::{AnsiTransactionManager, TransactionManager, TransactionManagerStatus};
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::Integer;
use diesel::{SqliteConnection, connection::SimpleConnection};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How the database file is used.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Connections that only read. Writes go through one more.
    pub readers: usize,
    /// How long a call waits for a connection of this process.
    pub wait: Duration,
    /// How long SQLite waits for another process that writes.
    pub busy_timeout: Duration,
    /// Where the file's time comes from.
    pub clock: Arc<dyn MachineClock>,
    /// Whether the machine's calendar is right, also where it is more than a day ahead of its timer.
    pub accepts_clock: bool,
    /// Where its transactions run.
    pub blocking: BlockingCalls,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            readers: 3,
            wait: Duration::from_secs(10),
            busy_timeout: Duration::from_secs(5),
            clock: Arc::new(SystemClocks),
            accepts_clock: false,
            blocking: BlockingCalls::default(),
        }
    }
}

/// The file could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A newer program has changed its schema. Nothing was written.
    #[error(
        "the database has schema version {version}, which this program does not know: use a newer program"
    )]
    NewerSchema {
        /// The migration that this program does not know.
        version: String,
    },
    /// The path is not UTF-8, or has no folder.
    #[error("`{}` cannot be the path of a database", .0.display())]
    Path(PathBuf),
    /// The machine's calendar was set far ahead since the last write. No task was changed.
    #[error(
        "the machine's clock is {hours} hours ahead of what its timer has counted since the last write: set it right, or, where \
         it is right, start once with --accept clock"
    )]
    Clock {
        /// Hours by which it is ahead.
        hours: i64,
    },
    /// Its folder cannot be made.
    #[error("the folder of the database cannot be made")]
    Folder(#[source] std::io::Error),
    /// It is another process's, or the lock that says so cannot be had.
    #[error(transparent)]
    Use(#[from] UseError),
    /// SQLite cannot open it.
    #[error("the database cannot be opened: {0}")]
    Connection(String),
    /// A migration failed. It rolled back.
    #[error("the database's schema cannot be brought up to date: {0}")]
    Migration(String),
}

/// Whether a write has to survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// It is on the disk when the call returns.
    Full,
    /// It survives the end of the process, and reaches the disk with the next full write. For what
    /// only says who is at work, which no process is after a power cut: heartbeats.
    Relaxed,
}

/// The connections to one file, shared by the store and the queue. Cheap to clone.
#[derive(Clone)]
pub struct Database {
    path: Arc<str>,
    pub(super) writer: Writer,
    readers: Pool<Connections>,
    /// The share of lists in the readers.
    lists: Arc<Semaphore>,
    wait: Duration,
    clock: Arc<FileClock>,
    busy_timeout: Duration,
    blocking: BlockingCalls,
    pub(super) log_has_deleted: Arc<AtomicBool>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// The path as SQLite takes it.
fn usable(path: &Path) -> Result<Arc<str>, OpenError> {
    let text = path
        .to_str()
        .ok_or_else(|| OpenError::Path(path.to_owned()))?;
    // SQLite would take these for a database in memory, or for an URI with settings in it.
    if text.is_empty() || text.contains(":memory:") || text.starts_with("file:") {
        return Err(OpenError::Path(path.to_owned()));
    }
    Ok(text.into())
}

impl Database {
    /// Opens a file, makes it where there is none, and brings its schema up to date.
    pub(super) async fn open(path: &Path, options: &SqliteOptions) -> Result<Self, OpenError> {
        let folder = path
            .parent()
            .ok_or_else(|| OpenError::Path(path.to_owned()))?
            .to_owned();
        let (busy_timeout, file) = (options.busy_timeout, usable(path)?);
        let (clock, accepts) = (
            Arc::new(FileClock::new(options.clock.clone())),
            options.accepts_clock,
        );
        let looked_at = clock.clone();
        let prepared = options.blocking.run(move || {
            make_folders(&folder, 0o777).map_err(OpenError::Folder)?;
            let file_use = FileUse::of(&file, wal_reset_bug())?;
            let turn = file_use.turn();
            let _turn = wait_for(turn.as_deref());
            let mut connection = migrate::bring_up_to_date(&file, busy_timeout)?;
            if let Some(hours) = looked_at.check(&mut connection, accepts)? {
                return Err(OpenError::Clock { hours });
            }
            Ok::<_, OpenError>(file_use)
        });
        let file_use = prepared
            .await
            .map_err(|error| OpenError::Connection(error.to_string()))??;
        Self::with(usable(path)?, options, clock, Some(Arc::new(file_use)))
    }

    /// Looks at a file with the schema that it has. Not for writing.
    // Beside a process that has it alone, too: readers have no part in what SQLite got wrong.
    pub(super) fn as_it_is(path: &Path, options: &SqliteOptions) -> Result<Self, OpenError> {
        let clock = Arc::new(FileClock::new(options.clock.clone()));
        Self::with(usable(path)?, options, clock, None)
    }

    /// Opens a database in memory, or another part of one that is there: it lasts as long as one of its parts. The name is
    /// that of all its parts in this process.
    pub(super) async fn in_memory(name: &str, options: &SqliteOptions) -> Result<Self, OpenError> {
        // Shared by its name, which the leading slash says.
        let path: Arc<str> = format!("file:/{name}?vfs=memdb").into();
        let mut first = migrate::bring_up_to_date(&path, options.busy_timeout)?;
        let clock = Arc::new(FileClock::new(options.clock.clone()));
        clock.check(&mut first, options.accepts_clock)?;
        let database = Self::with(path, options, clock, None)?;
        // It is gone with its last connection, and that of the writer stays.
        let writer = database.writer.connect().await;
        writer.map_err(OpenError::Connection)?;
        Ok(database)
    }

    fn with(
        text: Arc<str>,
        options: &SqliteOptions,
        clock: Arc<FileClock>,
        file_use: Option<Arc<FileUse>>,
    ) -> Result<Self, OpenError> {
        let (busy_timeout, blocking) = (options.busy_timeout, options.blocking);
        let pool = |use_: Use, size: usize| {
            let timeouts = Timeouts {
                wait: Some(options.wait),
                create: None,
                recycle: None,
            };
            Pool::builder(Connections {
                path: text.clone(),
                busy_timeout,
                blocking,
                use_,
                file_use: file_use.clone(),
            })
            .max_size(size.max(1))
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| OpenError::Connection(error.to_string()))
        };
        let (writer, readers) = (pool(Use::Write, 1)?, pool(Use::Read, options.readers)?);
        let writer = Writer::new(writer, clock.clone(), options.wait, blocking);
        Ok(Self {
            path: text,
            writer,
            readers,
            lists: Arc::new(Semaphore::new(options.readers.saturating_sub(1).max(1))),
            wait: options.wait,
            clock,
            busy_timeout,
            blocking,
            // A process that has ended may have left it.
            log_has_deleted: Arc::new(AtomicBool::new(true)),
        })
    }

    /// Writes the file anew.
    pub(super) async fn vacuum(&self) -> Result<(), OpenError> {
        let (path, busy_timeout) = (self.path.clone(), self.busy_timeout);
        let vacuumed = self.blocking.run(move || {
            let mut file = connect(&path, busy_timeout)?;
            let written = file
                .batch_execute("VACUUM")
                .and_then(|()| deleted::set_overwrites(&mut file))
                .and_then(|()| LogSince::NEVER.write(&mut file))
                .and_then(|()| file.batch_execute("PRAGMA wal_checkpoint(TRUNCATE)"));
            written.map_err(|error| OpenError::Connection(error.to_string()))
        });
        vacuumed
            .await
            .map_err(|error| OpenError::Connection(error.to_string()))?
    }

    /// Reads in one snapshot.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut SqliteConnection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let mut connection = get(&self.readers).await.map_err(Fault::Unavailable)?;
        let transaction = move || connection.diesel.transaction(query);
        let read = self.blocking.run(transaction);
        read.await
            .map_err(|error| Fault::Unavailable(error.to_string()))?
    }

    /// Reads in one snapshot, with the time at which it does.
    pub(crate) async fn read_at<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut SqliteConnection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        self.read(self.timed(query)).await
    }

    /// Reads a list or a count, which people ask for and which may take long: however many ask, a connection is
    /// left for what the engine itself waits for, which is never read here.
    pub(super) async fn list<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut SqliteConnection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let share = timeout(self.wait, self.lists.clone().acquire_owned()).await;
        let share = share.map_err(|_| {
            let wait = self.wait;
            Fault::Unavailable(format!(
                "no turn for a list within {wait:?}: others take long"
            ))
        })?;
        // Held until the query ends, also where its caller is gone.
        self.read(move |connection| {
            let _share = share;
            query(connection)
        })
        .await
    }

    /// The same, with the time at which it does.
    pub(super) async fn list_at<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut SqliteConnection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        self.list(self.timed(query)).await
    }

    fn timed<T, Q>(
        &self,
        query: Q,
    ) -> impl FnOnce(&mut SqliteConnection) -> Result<T, Fault> + Send + 'static + use<T, Q>
    where
        Q: FnOnce(&mut SqliteConnection, i64) -> Result<T, Fault> + Send + 'static,
    {
        let clock = self.clock.clone();
        move |connection: &mut SqliteConnection| {
            let now = clock.read(connection)?;
            query(connection, now)
        }
    }

    /// Writes whole or not at all. The closure gets the one `now` of its transaction; it runs again
    /// where that one rolled back for a neighbour's sake.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        change: impl Fn(&mut SqliteConnection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        self.writer.write(How::shared(durability), change).await
    }

    /// The same, in a transaction of its own.
    pub(crate) async fn write_alone<T: Send + 'static>(
        &self,
        durability: Durability,
        change: impl Fn(&mut SqliteConnection, i64) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        self.writer.write(How::alone(durability), change).await
    }
}

pub(super) async fn get(pool: &Pool<Connections>) -> Result<Object<Connections>, String> {
    pool.get().await.map_err(|error| error.to_string())
}

/// Settings of the connection that writes. 16 MiB of pages stay at hand, since no other connection
/// of this process changes them; and the log goes into the file after 16 MiB instead of 4, so that
/// a page that many changes have written goes once.
const WRITER: &str = "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
    PRAGMA cache_size = -16384; PRAGMA wal_autocheckpoint = 4096";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

pub(super) struct Connections {
    path: Arc<str>,
    busy_timeout: Duration,
    blocking: BlockingCalls,
    use_: Use,
    file_use: Option<Arc<FileUse>>,
}

pub(super) struct Pooled {
    pub(super) diesel: SqliteConnection,
    durability: Durability,
    busy_timeout: Duration,
    /// Let go after the connection is closed.
    pub(super) file_use: Option<Arc<FileUse>>,
}

impl Pooled {
    pub(super) fn write<T>(
        &mut self,
        durability: Durability,
        change: impl FnOnce(&mut SqliteConnection) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if self.durability != durability {
            self.diesel.batch_execute(match durability {
                Durability::Full => "PRAGMA synchronous = FULL",
                Durability::Relaxed => "PRAGMA synchronous = NORMAL",
            })?;
            self.durability = durability;
        }
        let mut complete = false;
        let written = self.diesel.immediate_transaction(|connection| {
            let done = change(connection)?;
            complete = true;
            Ok(done)
        });
        match written {
            // The COMMIT itself failed, on the disk: SQLite rolls back what it can, but what a
            // crash from here on would find in the log is unknown.
            Err(Fault::Sql(error)) if complete && !is_busy(&error) && !is_foreign(&error) => {
                Err(Fault::Unknown(error.to_string()))
            }
            other => other,
        }
    }
}

#[derive(QueryableByName)]
struct Checkpoint {
    #[diesel(sql_type = Integer)]
    busy: i32,
}

impl Pooled {
    /// Moves the log into the file and cuts it to nothing, unless another connection reads from it or writes: that is not waited for.
    /// Whether that was possible, and whether the file says that something was deleted.
    pub(super) fn empty_log(&mut self) -> Result<(bool, bool), Fault> {
        let since = LogSince::read(&mut self.diesel)?;
        // Before it is emptied: what another process deletes meanwhile is marked anew, and this mark leaves with the log.
        if since != LogSince::NEVER {
            self.write(Durability::Relaxed, |file| Ok(LogSince::NEVER.write(file)?))?;
        }
        let emptied = self.truncate_log();
        if since != LogSince::NEVER && !matches!(emptied, Ok(true)) {
            self.write(Durability::Relaxed, |file| Ok(since.write(file)?))?;
        }
        Ok((emptied?, since != LogSince::NEVER))
    }

    fn truncate_log(&mut self) -> Result<bool, Fault> {
        self.diesel.batch_execute("PRAGMA busy_timeout = 0")?;
        let emptied =
            diesel::sql_query("PRAGMA wal_checkpoint(TRUNCATE)").get_result(&mut self.diesel);
        let wait = format!("PRAGMA busy_timeout = {}", self.busy_timeout.as_millis());
        self.diesel.batch_execute(&wait)?;
        Ok(emptied.map(|Checkpoint { busy }| busy == 0)?)
    }
}

impl Manager for Connections {
    type Type = Pooled;
    type Error = String;

    async fn create(&self) -> Result<Pooled, String> {
        let (path, busy_timeout, use_) = (self.path.clone(), self.busy_timeout, self.use_);
        let file_use = self.file_use.clone();
        let opened = self.blocking.run(move || -> Result<Pooled, String> {
            let mut diesel = connect(&path, busy_timeout).map_err(|error| error.to_string())?;
            let settings = match use_ {
                Use::Read => "PRAGMA query_only = ON",
                Use::Write => WRITER,
            };
            diesel
                .batch_execute(settings)
                .map_err(|error| error.to_string())?;
            Ok(Pooled {
                diesel,
                durability: Durability::Full,
                busy_timeout,
                file_use,
            })
        });
        opened.await.map_err(|error| error.to_string())?
    }

    async fn recycle(&self, connection: &mut Pooled, _: &Metrics) -> RecycleResult<String> {
        // A closure that panicked left its transaction open: closing the connection rolls it back.
        let status = AnsiTransactionManager::transaction_manager_status_mut(&mut connection.diesel);
        match status {
            TransactionManagerStatus::Valid(valid) if valid.transaction_depth().is_none() => Ok(()),
            TransactionManagerStatus::Valid(_) | TransactionManagerStatus::InError => {
                Err(RecycleError::message("a transaction was left open"))
            }
        }
    }
}

/// A foreign key is looked at last where its table says so; then the COMMIT is refused, and nothing
/// is unknown.
fn is_foreign(error: &DieselError) -> bool {
    matches!(
        error,
        DieselError::DatabaseError(DatabaseErrorKind::ForeignKeyViolation, _)
    )
}

/// Opens a connection without writing anything.
pub(super) fn connect(path: &str, busy_timeout: Duration) -> Result<SqliteConnection, OpenError> {
    let failed = |error: String| OpenError::Connection(error);
    let mut connection =
        SqliteConnection::establish(path).map_err(|error| failed(error.to_string()))?;
    // What is deleted is overwritten: without it, the page stays readable in the file until it is used again.
    let settings = format!(
        "PRAGMA busy_timeout = {}; PRAGMA secure_delete = ON",
        busy_timeout.as_millis()
    );
    connection
        .batch_execute(&settings)
        .map_err(|error| failed(error.to_string()))?;
    Ok(connection)
}
