//! The time of an SQLite file, under a machine whose clock is set forward and back.

use crate::embedded::{open_in, options};
use crate::suite::changes::*;
use crate::suite::eventually;
use crate::suite::workers::process;
use counterstep_adapters::embedded::EmbeddedOptions;
use counterstep_adapters::sqlite::{
    MachineClock, OpenError, SqliteOptions, SqliteStore, SystemClocks,
};
use counterstep_adapters::transient::is_transient;
use counterstep_contracts::workers::WorkerState;
use counterstep_contracts::{TaskStatus, Tenant, WaitReason};
use counterstep_kernel::change::transition::{LeaseChange, Time};
use counterstep_kernel::ports::{
    DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, Find, Heartbeat, Lost, Ports, Store,
};
use counterstep_kernel::record::TaskRecord;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

const HOUR: i64 = 3600;

/// The machine's clocks, with a calendar that a test sets, and with time that a test lets pass.
#[derive(Debug, Default)]
struct Settable {
    machine: SystemClocks,
    seconds: AtomicI64,
    passed: AtomicU64,
    suspended: AtomicU64,
    has_restarted: AtomicBool,
}

impl Settable {
    fn set(&self, seconds: i64) {
        self.seconds.store(seconds, Ordering::SeqCst);
    }

    fn pass(&self, seconds: u64) {
        self.passed.fetch_add(seconds, Ordering::SeqCst);
    }

    fn suspend(&self, seconds: u64) {
        self.suspended.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Its timer cannot be compared with that of before.
    fn restart(&self) {
        self.has_restarted.store(true, Ordering::SeqCst);
    }

    fn passed(&self) -> Duration {
        Duration::from_secs(self.passed.load(Ordering::SeqCst))
    }
}

impl MachineClock for Settable {
    fn calendar(&self) -> Duration {
        let seconds = self.seconds.load(Ordering::SeqCst);
        let by = Duration::from_secs(seconds.unsigned_abs());
        let calendar = self.machine.calendar() + self.passed() + self.suspended();
        if seconds < 0 {
            calendar.saturating_sub(by)
        } else {
            calendar + by
        }
    }

    fn monotonic(&self) -> Duration {
        self.machine.monotonic() + self.passed()
    }

    fn suspended(&self) -> Duration {
        Duration::from_secs(self.suspended.load(Ordering::SeqCst))
    }

    fn origin(&self) -> String {
        let has_restarted = self.has_restarted.load(Ordering::SeqCst);
        format!("{} {has_restarted}", self.machine.origin())
    }
}

/// The embedded set as a process would open it that has just started.
async fn started(folder: &Path, clock: &Arc<Settable>) -> Ports {
    let sqlite = SqliteOptions {
        clock: clock.clone(),
        ..SqliteOptions::default()
    };
    open_in(
        folder,
        EmbeddedOptions {
            sqlite,
            ..options()
        },
    )
    .await
}

async fn lost(store: &Store, record: &TaskRecord) -> bool {
    let found = store
        .find(&Find::Lost(Lost::default()), 10)
        .await
        .expect("an answer");
    found.iter().any(|task| task.task == record.task.id)
}

async fn leased_for(store: &Store, lease: Duration) -> TaskRecord {
    let submitted = submitted(store, row(new_task())).await;
    commit(store, free(&submitted), &claim(&submitted, "a host", lease))
        .await
        .expect("a claim");
    load(store, submitted.task.id).await
}

#[tokio::test]
async fn what_processes_hold_moves_along_with_a_clock_that_is_set_forward() {
    let (folder, clock) = (
        tempfile::tempdir().expect("a folder"),
        Arc::new(Settable::default()),
    );
    let store = started(folder.path(), &clock).await.store;
    let process = process("worker:1", MINUTE);
    let now = store.refresh_worker(&process).await.expect("its row");
    let limit = DocumentWrite {
        kind: DocumentKind::Limit,
        tenant: Tenant::default(),
        name: "bank".to_owned(),
        expected: None,
        change: DocumentChange::Put {
            body: json!({ "holders": { "worker:1": { "held": 2, "wanted": 2, "until": now.later(MINUTE) } } }).to_string(),
            due_at: None,
        },
    };
    store.put_document(&limit).await.expect("a limit");
    clock.set(HOUR);
    // Any write of any process.
    leased_for(&store, MINUTE).await;
    let found = store.workers().await.expect("the registry");
    assert_eq!(found.rows[0].state(found.now), WorkerState::Alive);
    let named = DocumentQuery::Named {
        kind: DocumentKind::Limit,
        tenant: Tenant::default(),
        names: vec!["bank".to_owned()],
    };
    let found = store.documents(&named).await.expect("the limit");
    let body: serde_json::Value = serde_json::from_str(&found.rows[0].body).expect("JSON");
    let until = body["holders"]["worker:1"]["until"]
        .as_i64()
        .expect("a time");
    let left = until - found.now.0;
    assert!((1..=60_000_000).contains(&left), "{left}: {body}");
    assert_eq!(body["holders"]["worker:1"]["held"], 2);
}

#[tokio::test]
async fn after_the_clock_was_set_back_a_killed_hosts_task_is_found_and_a_retry_is_due() {
    let (folder, clock) = (
        tempfile::tempdir().expect("a folder"),
        Arc::new(Settable::default()),
    );
    let store = started(folder.path(), &clock).await.store;
    let killed = leased_for(&store, Duration::from_millis(300)).await;
    let asleep = leased_for(&store, MINUTE).await;
    let mut change = after(&asleep);
    let write = write_of(&mut change);
    (write.row.status, write.row.waiting) = (TaskStatus::Waiting, Some(WaitReason::Retry));
    (write.lease, write.due) = (LeaseChange::Release, Time::In(Duration::from_millis(300)));
    commit(&store, leased(&asleep), &change)
        .await
        .expect("a wait");

    clock.set(-HOUR);
    // Also for a process that starts only now, and has no time of its own.
    for store in [store, started(folder.path(), &clock).await.store] {
        eventually("the killed host's task", || async {
            lost(&store, &killed).await.then_some(())
        })
        .await;
        eventually("the retry", || async {
            load(&store, asleep.task.id)
                .await
                .due_in()
                .is_zero()
                .then_some(())
        })
        .await;
    }
}

/// The times in rows, that is; those of two processes that only read may be milliseconds apart.
#[tokio::test]
async fn time_never_runs_backwards_in_one_process_another_or_a_later_one() {
    let (folder, clock) = (
        tempfile::tempdir().expect("a folder"),
        Arc::new(Settable::default()),
    );
    let (one, other) = (
        started(folder.path(), &clock).await.store,
        started(folder.path(), &clock).await.store,
    );
    let mut latest = leased_for(&one, MINUTE).await.task.updated_at;
    for seconds in [-HOUR, 0, -1, -24 * HOUR, -HOUR] {
        clock.set(seconds);
        let later = started(folder.path(), &clock).await.store;
        for store in [&one, &other, &later] {
            let record = leased_for(store, MINUTE).await;
            assert!(
                record.now >= record.task.created_at,
                "a read is behind its write"
            );
            assert!(
                record.task.created_at >= latest,
                "{:?} after {latest:?}",
                record.task.created_at
            );
            latest = record.task.updated_at;
        }
    }
}

/// The file rests meanwhile: nothing is written from which the new process could count.
#[tokio::test]
async fn a_lease_of_a_process_that_starts_after_the_clock_was_set_back_is_whole_for_one_that_ran_before()
 {
    let (folder, clock) = (
        tempfile::tempdir().expect("a folder"),
        Arc::new(Settable::default()),
    );
    let reconciler = started(folder.path(), &clock).await.store;
    let before = leased_for(&reconciler, MINUTE).await;
    clock.set(-HOUR);
    clock.pass(40);
    let worker = started(folder.path(), &clock).await.store;
    let held = leased_for(&worker, MINUTE).await;
    let seen = load(&reconciler, held.task.id).await;
    let until = seen.task.lease_expires_at.expect("a lease");
    let left = until.after(seen.now);
    assert!(left > MINUTE - Duration::from_secs(10), "{left:?} are left");
    clock.pass(30);
    assert!(!lost(&reconciler, &held).await, "its holder is not late");
    assert!(lost(&worker, &before).await, "70 s are over for the other");
}

#[tokio::test]
async fn a_clock_that_is_set_forward_takes_no_lease_away() {
    let (folder, clock) = (
        tempfile::tempdir().expect("a folder"),
        Arc::new(Settable::default()),
    );
    let (one, other) = (
        started(folder.path(), &clock).await.store,
        started(folder.path(), &clock).await.store,
    );
    let held = leased_for(&one, MINUTE).await;
    load(&other, held.task.id).await;

    clock.set(HOUR);
    for store in [&one, &other] {
        // Whichever comes first, a read or a write.
        assert!(load(store, held.task.id).await.lease_is_live());
        leased_for(store, MINUTE).await;
        let record = load(store, held.task.id).await;
        assert!(
            record.lease_is_live() && !lost(store, &record).await,
            "its holder is not late"
        );
        let until = record.task.lease_expires_at.expect("a lease");
        assert!(
            until.after(record.now) <= MINUTE,
            "and it holds no longer than it did"
        );
        assert!(
            record.now.after(held.now) > Duration::from_secs(3000),
            "the calendar counts for everything else"
        );
    }
    let beat = one
        .heartbeat(held.task.id, held.task.epoch, MINUTE)
        .await
        .expect("an answer");
    assert_eq!(
        beat,
        Heartbeat::Held {
            cancel_requested: false
        }
    );
}

#[tokio::test]
async fn a_process_that_starts_after_the_clock_was_set_forward_ends_no_lease() {
    let (folder, clock) = (
        tempfile::tempdir().expect("a folder"),
        Arc::new(Settable::default()),
    );
    let worker = started(folder.path(), &clock).await.store;
    let held = leased_for(&worker, MINUTE).await;
    clock.set(HOUR);
    // One that reads first, and one that writes first.
    let reader = started(folder.path(), &clock).await.store;
    assert!(!lost(&reader, &held).await, "its holder is not late");
    let writer = started(folder.path(), &clock).await.store;
    leased_for(&writer, MINUTE).await;
    for store in [&reader, &writer, &worker] {
        let record = load(store, held.task.id).await;
        assert!(
            record.lease_is_live() && !lost(store, &record).await,
            "its holder is not late"
        );
        let until = record.task.lease_expires_at.expect("a lease");
        assert!(
            until.after(record.now) <= MINUTE,
            "and it holds no longer than it did"
        );
    }
}

#[tokio::test]
async fn a_lease_ends_in_its_time_however_often_processes_start() {
    let (folder, clock) = (
        tempfile::tempdir().expect("a folder"),
        Arc::new(Settable::default()),
    );
    let killed = leased_for(&started(folder.path(), &clock).await.store, MINUTE).await;
    clock.set(HOUR);
    for _ in 0..5 {
        clock.pass(10);
        let store = started(folder.path(), &clock).await.store;
        // A write, as each pass of a reconciler has some.
        submitted(&store, row(new_task())).await;
        assert!(store.find(&Find::Lost(Lost::default()), 10).await.is_ok());
    }
    clock.pass(20);
    assert!(
        lost(&started(folder.path(), &clock).await.store, &killed).await,
        "its host died a lease ago"
    );
}

/// Opens a file that a write has just used, after what has happened to the clocks since.
async fn opened_after(happens: impl FnOnce(&Settable)) -> Result<SqliteStore, OpenError> {
    let (folder, clock) = (
        tempfile::tempdir().expect("a folder"),
        Arc::new(Settable::default()),
    );
    leased_for(&started(folder.path(), &clock).await.store, MINUTE).await;
    happens(&clock);
    opened(folder.path(), &clock, false).await
}

async fn opened(
    folder: &Path,
    clock: &Arc<Settable>,
    accepts_clock: bool,
) -> Result<SqliteStore, OpenError> {
    let options = SqliteOptions {
        clock: clock.clone(),
        accepts_clock,
        ..SqliteOptions::default()
    };
    SqliteStore::open(&folder.join("data/counterstep.db"), options).await
}

#[tokio::test]
async fn a_start_refuses_a_calendar_that_is_more_than_a_day_ahead_of_the_machines_timer() {
    let refused = opened_after(|clock| clock.set(30 * HOUR)).await;
    let error = refused.expect_err("it would end every retention");
    assert!(
        matches!(error, OpenError::Clock { hours: 29 | 30 }),
        "{error:?}"
    );
    assert!(error.to_string().contains("--accept clock"), "{error}");
    assert!(!is_transient(&error), "a clock does not mend itself");

    let day = 24 * 3600;
    let refused = opened_after(|clock| {
        clock.suspend(day);
        clock.set(60 * HOUR);
    });
    assert!(refused.await.is_err(), "a suspension is not all of it");

    type Happens = fn(&Settable);
    let taken: [(&str, Happens); 5] = [
        ("less than a day", |clock| clock.set(23 * HOUR)),
        ("time that has passed", |clock| clock.pass(30 * 24 * 3600)),
        ("a machine that was suspended", |clock| {
            clock.suspend(30 * 24 * 3600)
        }),
        ("a clock that was set back", |clock| clock.set(-30 * HOUR)),
        ("a machine that was restarted", |clock| {
            clock.restart();
            clock.set(30 * 24 * HOUR);
        }),
    ];
    for (case, happens) in taken {
        let taken = opened_after(happens).await;
        assert!(taken.is_ok(), "{case}: {taken:?}");
    }
}

#[tokio::test]
async fn a_calendar_is_accepted_once() {
    let (folder, clock) = (
        tempfile::tempdir().expect("a folder"),
        Arc::new(Settable::default()),
    );
    let held = leased_for(&started(folder.path(), &clock).await.store, MINUTE).await;
    clock.set(30 * HOUR);
    let refused = opened(folder.path(), &clock, false).await;
    assert!(
        matches!(refused, Err(OpenError::Clock { .. })),
        "{refused:?}"
    );
    let accepting = opened(folder.path(), &clock, true).await.expect("it opens");
    leased_for(&accepting.into(), MINUTE).await;
    let later = opened(folder.path(), &clock, false)
        .await
        .expect("the file is there by now");
    assert!(
        load(&later.into(), held.task.id).await.lease_is_live(),
        "leases move along as ever"
    );
}
