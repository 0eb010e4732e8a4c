//! An API and a worker of one process on a SQLite file: its statements, how often they are parsed,
//! and the pages that it writes.
#![expect(
    unsafe_code,
    reason = "how often SQLite has parsed a statement, it tells C alone"
)]

use super::golden::{Costs, Counters, Counts, shown, tally};
use super::roles::{Roles, StillClock, registry};
use counterstep_adapters::folder::{FolderObjects, FolderScratch};
use counterstep_adapters::local::{LocalHints, LocalLocks};
use counterstep_adapters::local_queue::{LocalQueue, QueueOptions};
use counterstep_adapters::sqlite::{SqliteOptions, SqliteStore};
use counterstep_adapters::system::{LocalSignals, SystemRandom};
use counterstep_contracts::{QueueName, TaskId, TaskStatus, Tenant};
use counterstep_kernel::ports::{
    ChildQuery, Clock, DocumentKind, DocumentQuery, DuePlace, FailureQuery, Find, First, InTheTurn,
    JournalPage, Lane, Lost, LostOf, NoServices, OutboxOp, PlaceQuery, Ports, PurgeOp, ReceiveOp,
    RevisionsOf, Store, StoreError, TaskQuery, Unclaimed, WaitingQuery,
};
use counterstep_steps::times::DbTime;
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use libsqlite3_sys as ffi;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// A statement that has ended, and how often it was parsed for that.
type Ended = (String, u64);

/// All statements of this process since the last look.
static ENDED: parking_lot::Mutex<Vec<Ended>> = parking_lot::Mutex::new(Vec::new());

fn take_ended() -> Vec<Ended> {
    std::mem::take(&mut *ENDED.lock())
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
    ENDED.lock().push((shown(&text), parsed));
    0
}

pub(super) struct File {
    path: PathBuf,
    _folder: TempDir,
}

/// Each connection keeps its own parsed statements, and which of several is used is chance.
fn one_reader() -> SqliteOptions {
    SqliteOptions {
        readers: 1,
        ..SqliteOptions::default()
    }
}

pub(super) async fn start() -> (Roles, File) {
    trace();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tasks.db");
    let store = SqliteStore::open(&path, one_reader())
        .await
        .expect("a file");
    let still = StillClock::default();
    let clock: Arc<dyn Clock> = Arc::new(still.clone());
    let queue = LocalQueue::with_clock(store.database(), QueueOptions::default(), clock.clone());
    let at = |name: &str| folder.path().join(name);
    let ports = Ports {
        store: store.into(),
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
            about: Vec::new(),
        }
    }
}

/// What a store is asked that has a limit.
async fn read(store: &Store, limit: u32) -> Result<(), StoreError> {
    let (tenant, task, kind) = (
        Tenant::default(),
        TaskId(uuid::Uuid::nil()),
        DocumentKind::Webhook,
    );
    let (known, minute) = (registry().known(), Duration::from_secs(60));
    let queues = vec![QueueName("bench".to_owned())];
    for of in [
        LostOf::All,
        LostOf::These(known.clone()),
        LostOf::Others(known.clone()),
    ] {
        let lost = Lost {
            of,
            ..Lost::default()
        };
        store.find(&Find::Lost(lost), limit).await?;
    }
    let claimable = Find::Claimable {
        queues: queues.clone(),
        known: known.clone(),
        unclaimed_for: minute,
        after: None,
    };
    let unclaimed = Unclaimed {
        queues,
        known: known.clone(),
        for_at_least: minute,
        at_most: minute,
    };
    for due in [claimable, Find::Unclaimed(unclaimed), Find::Parents(known)] {
        store.find(&due, limit).await?;
    }
    store
        .outbox(OutboxOp::Take {
            older_than: minute,
            limit,
        })
        .await?;
    store.idempotency(&tenant, "key").await?;
    let after = DuePlace {
        due: DbTime(0),
        tenant: tenant.clone(),
        name: String::new(),
    };
    for query in [
        DocumentQuery::Page {
            kind,
            tenant: tenant.clone(),
            after: None,
            limit,
        },
        DocumentQuery::Due {
            kind,
            after: None,
            limit,
        },
        DocumentQuery::Due {
            kind,
            after: Some(after),
            limit,
        },
        DocumentQuery::Latest { kind, limit },
    ] {
        store.documents(&query).await?;
    }
    store.successors(&tenant, task).await?;
    store.child_counts(task).await?;
    let children = ChildQuery {
        parent: task,
        step: None,
        statuses: Vec::new(),
        after: None,
        limit,
    };
    store.children(&children).await?;
    for first in [First::Oldest, First::Newest] {
        store
            .places(&PlaceQuery::Of {
                key: "key".to_owned(),
                first,
                waiting: limit,
            })
            .await?;
    }
    store.place_counts(None, limit).await?;
    let (task_type, at_most) = ("Bench".to_owned(), limit);
    let failures = FailureQuery {
        tenant: tenant.clone(),
        task_type: task_type.clone(),
        classes: &["permanent"],
        within: minute,
        counts_from: None,
        at_most,
    };
    store.failures(&failures).await?;
    store
        .waiting(&WaitingQuery {
            tenant: tenant.clone(),
            task_type: None,
            at_most,
        })
        .await?;
    store
        .list(&TaskQuery {
            tenant: Some(tenant.clone()),
            limit,
            ..TaskQuery::default()
        })
        .await?;
    let ended = RevisionsOf::Ended {
        tenant: Some(tenant),
        task_types: vec![task_type.clone()],
        after: (DbTime(0), task),
        limit,
    };
    store.revisions(&ended).await?;
    let parked = RevisionsOf::Parked {
        after: [(task_type.clone(), (DbTime(0), task))].into(),
        limit,
    };
    store.revisions(&parked).await?;
    store.gauges(&[]).await?;
    store.gauges(&["order".to_owned()]).await?;
    for task in [None, Some(task.to_string())] {
        let page = JournalPage {
            task,
            after: None,
            limit,
            lane: Lane::People,
        };
        store.journal(&page).await?;
        store.chain_tips(&page).await?;
    }
    store.find(&Find::ToSweep, limit).await?;
    store.receives(&ReceiveOp::Overdue { limit }).await?;
    let ended = Find::Ended {
        task_type,
        status: TaskStatus::Completed,
        before: minute,
        after: None,
    };
    store.find(&ended, limit).await?;
    store.purge(&PurgeOp::OldestTombstones { limit }).await?;
    Ok(())
}

#[tokio::test]
async fn sqlite_parses_no_read_with_a_limit_again() {
    let _alone = super::ALONE.lock().await;
    trace();
    let folder = tempfile::tempdir().expect("a folder");
    let store: Store = SqliteStore::open(&folder.path().join("tasks.db"), one_reader())
        .await
        .expect("a file")
        .into();
    for limit in [9, 16, 12] {
        drop(take_ended());
        read(&store, limit).await.expect("an answer");
    }
    let parsed = take_ended().into_iter().filter(|(_, times)| *times > 0);
    let is_transaction = |text: &str| {
        ["BEGIN", "COMMIT", "PRAGMA"]
            .iter()
            .any(|it| text.starts_with(it))
    };
    let parsed: Vec<String> = parsed
        .map(|(text, _)| text)
        .filter(|text| !is_transaction(text))
        .collect();
    assert_eq!(parsed, Vec::<String>::new());
}
