//! An API and a worker of one process on a SQLite file: its statements, how often they are parsed,
//! and the pages that it writes.
#![expect(
    unsafe_code,
    reason = "how often SQLite has parsed a statement, it tells C alone"
)]

use super::Counters;
use super::golden::{Costs, Counts, shown, tally};
use super::roles::{Roles, StillClock};
use counterstep_adapters::folder::{FolderObjects, FolderScratch};
use counterstep_adapters::local::{LocalHints, LocalLocks};
use counterstep_adapters::local_queue::{LocalQueue, QueueOptions};
use counterstep_adapters::sqlite::{SqliteOptions, SqliteStore};
use counterstep_adapters::system::{LocalSignals, SystemRandom};
use counterstep_kernel::ports::{Clock, InTheTurn, NoServices, Ports};
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use libsqlite3_sys as ffi;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::TempDir;

/// A statement that has ended, and how often it was parsed for that.
type Ended = (String, u64);

/// All statements of this process since the last look.
static ENDED: Mutex<Vec<Ended>> = Mutex::new(Vec::new());

fn take_ended() -> Vec<Ended> {
    std::mem::take(&mut *ENDED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Has SQLite report the end of each statement of all connections that are opened from now on.
fn trace() {
    // SAFETY: `on_open` has the signature that SQLite asks for, and stays for as long as the process.
    let known = unsafe { ffi::sqlite3_auto_extension(Some(on_open)) };
    assert_eq!(known, ffi::SQLITE_OK);
}

unsafe extern "C" fn on_open(
    connection: *mut ffi::sqlite3,
    _error: *mut *mut c_char,
    _routines: *const ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: SQLite hands out a connection that is open, and `on_end` needs no context.
    unsafe {
        ffi::sqlite3_trace_v2(
            connection,
            ffi::SQLITE_TRACE_PROFILE,
            Some(on_end),
            std::ptr::null_mut(),
        )
    }
}

unsafe extern "C" fn on_end(
    _what: c_uint,
    _context: *mut c_void,
    statement: *mut c_void,
    _nanoseconds: *mut c_void,
) -> c_int {
    let statement = statement.cast::<ffi::sqlite3_stmt>();
    // SAFETY: SQLite hands out a statement that has just run, and its text is there as long as it is.
    let (text, runs, again) = unsafe {
        (
            CStr::from_ptr(ffi::sqlite3_sql(statement)).to_string_lossy(),
            ffi::sqlite3_stmt_status(statement, ffi::SQLITE_STMTSTATUS_RUN, 0),
            ffi::sqlite3_stmt_status(statement, ffi::SQLITE_STMTSTATUS_REPREPARE, 1),
        )
    };
    let parsed = u64::from(runs == 1) + u64::try_from(again).unwrap_or_default();
    ENDED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push((shown(&text), parsed));
    0
}

pub(super) struct File {
    path: PathBuf,
    _folder: TempDir,
}

pub(super) async fn start() -> (Roles, File) {
    trace();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tasks.db");
    let store = SqliteStore::open(&path, SqliteOptions::default())
        .await
        .expect("a file");
    let still = StillClock::default();
    let clock: Arc<dyn Clock> = Arc::new(still.clone());
    let queue = LocalQueue::with_clock(store.database(), QueueOptions::default(), clock.clone());
    let at = |name: &str| folder.path().join(name);
    let ports = Ports {
        store: Arc::new(store),
        queue: Arc::new(queue),
        objects: Arc::new(FolderObjects::open(&at("objects")).expect("a folder")),
        scratch: Arc::new(FolderScratch::open(&at("scratch")).expect("a folder")),
        locks: Arc::new(LocalLocks::with_clock(&clock)),
        hints: Arc::new(LocalHints::with_clock(&clock)),
        // Those of other processes, which are not there, would be looked for in the file now and then.
        signals: Arc::new(LocalSignals::new()),
        services: Arc::new(NoServices),
        steps: Arc::new(InTheTurn),
        clock,
        random: Arc::new(SystemRandom),
    };
    let roles = Roles::start(ports.clone(), ports, still).await;
    (
        roles,
        File {
            path,
            _folder: folder,
        },
    )
}

impl File {
    /// Pages in the log.
    fn pages(&self) -> u64 {
        const HEADER: u64 = 32;
        const FRAME: u64 = 24 + 4096;
        let log = self.path.with_extension("db-wal");
        let bytes = std::fs::metadata(log).map_or(0, |log| log.len());
        bytes.saturating_sub(HEADER) / FRAME
    }
}

impl Counters for File {
    async fn begin(&mut self) {
        let path = self.path.to_str().expect("a name in UTF-8");
        let mut connection = SqliteConnection::establish(path).expect("a connection");
        connection
            .batch_execute("PRAGMA busy_timeout = 10000; PRAGMA wal_checkpoint(TRUNCATE)")
            .expect("an empty log");
        drop(connection);
        assert_eq!(self.pages(), 0);
        drop(take_ended());
    }

    async fn end(&mut self) -> Costs {
        let ended = take_ended();
        let mut parsed = Counts::new();
        for (text, times) in ended.iter().filter(|(_, times)| *times > 0) {
            *parsed.entry(text.clone()).or_default() += times;
        }
        Costs {
            exact: vec![
                ("statements", tally(ended.into_iter().map(|(text, _)| text))),
                ("of these parsed", parsed),
                (
                    "pages written",
                    Counts::from([(String::new(), self.pages())]),
                ),
            ],
            wal_bytes: None,
        }
    }
}
