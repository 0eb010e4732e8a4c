//! Writers of one file: transactions that they share, locks of other processes, callers that go
//! away, and how much one file takes.

use super::{file, number, raw};
use crate::embedded::{fixture, open_in, options};
use crate::suite::changes::*;
use crate::suite::eventually;
use counterstep_adapters::sqlite::{SqliteOptions, SqliteStore};
use counterstep_kernel::ports::{CommitError, Store, StoreError, TaskQuery};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::status;
use counterstep_kernel::workers::registration::Part;
use counterstep_kernel::workers::worker_registry;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_steps::Registry;
use diesel::connection::SimpleConnection;
use futures::FutureExt;
use futures::future::join_all;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_commit_whose_caller_goes_away_leaves_no_transaction_open() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    for _ in 0..20 {
        let change = submit(row(new_task())).with_journal(None, "test");
        // Polled until the closure runs, or not yet; then dropped.
        let _ = store.commit(NEW, change.clone()).now_or_never();
        let record = submitted(store, row(new_task())).await;
        let dropped = eventually("all or nothing", || async {
            match store.load(change.task_id).await.unwrap() {
                None => Some(0),
                Some(record) => Some(record.steps.len() + record.task.rev.0 as usize),
            }
        });
        assert!(matches!(dropped.await, 0 | 2));
        commit(store, free(&record), &after(&record)).await.unwrap();
    }
}

#[tokio::test]
async fn a_file_that_another_process_has_locked_is_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("locked.db");
    let options = SqliteOptions {
        busy_timeout: Duration::from_millis(50),
        ..SqliteOptions::default()
    };
    let store = Store::from(SqliteStore::open(&path, options).await.unwrap());
    let record = submitted(&store, row(new_task())).await;
    let mut other = raw(&path);
    other.batch_execute("BEGIN IMMEDIATE").unwrap();
    let busy = commit(&store, free(&record), &after(&record)).await;
    assert!(
        matches!(busy, Err(CommitError::Store(StoreError::Unavailable(_)))),
        "{busy:?}"
    );
    let busy = store
        .heartbeat(record.task.id, record.task.epoch, MINUTE)
        .await;
    assert!(matches!(busy, Err(StoreError::Unavailable(_))), "{busy:?}");
    // Who reads does not wait for who writes.
    assert_eq!(load(&store, record.task.id).await.task, record.task);
    other.batch_execute("ROLLBACK").unwrap();
    commit(&store, free(&record), &after(&record))
        .await
        .unwrap();
}

/// Commits a change of each task while another process holds the file, which it gives back once
/// they wait.
async fn commit_after_a_wait(
    store: &Store,
    path: &Path,
    records: &[TaskRecord],
) -> Vec<Result<(), CommitError>> {
    let mut other = raw(path);
    other.batch_execute("BEGIN IMMEDIATE").unwrap();
    let changes: Vec<_> = records
        .iter()
        .map(|record| (free(record), whole(Some(record), after(record))))
        .collect();
    let commits = join_all(
        changes
            .iter()
            .map(|(guard, change)| store.commit(*guard, change.clone())),
    );
    let release = async { other.batch_execute("ROLLBACK").unwrap() };
    let (committed, ()) = tokio::join!(commits, release);
    committed
        .into_iter()
        .map(|committed| committed.map(drop))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_wait_share_a_transaction() {
    let fixture = fixture().await;
    let (store, path) = (&fixture.ports.store, file(&fixture));
    let records = join_all((0..40).map(|_| submitted(store, row(new_task())))).await;
    // Each transaction that writes notes its time.
    let count = "CREATE TABLE transactions (n INTEGER);
        CREATE TRIGGER one AFTER UPDATE ON clock BEGIN INSERT INTO transactions VALUES (1); END";
    raw(&path).batch_execute(count).unwrap();
    let committed = commit_after_a_wait(store, &path, &records).await;
    assert!(committed.iter().all(Result::is_ok), "{committed:?}");
    // The first write has found no other under way, unless all 40 were there when it was looked for.
    let transactions = number(&mut raw(&path), "SELECT count(*) AS n FROM transactions");
    assert!((1..=2).contains(&transactions), "{transactions}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_writes_without_end_leaves_room_for_another() {
    let fixture = fixture().await;
    let other = open_in(fixture.folder.path(), options()).await;
    let store = &fixture.ports.store;
    let is_done = AtomicBool::new(false);
    let busy = join_all((0..64).map(|_| async {
        let mut record = submitted(store, row(new_task())).await;
        while !is_done.load(Ordering::SeqCst) {
            commit(store, free(&record), &after(&record)).await.unwrap();
            record = load(store, record.task.id).await;
        }
    }));
    let writes = async {
        for _ in 0..10 {
            submitted(&other.store, row(new_task())).await;
        }
        is_done.store(true, Ordering::SeqCst);
    };
    tokio::join!(busy, writes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_rolls_its_transaction_back_takes_no_neighbour_with_it() {
    let fixture = fixture().await;
    let (store, path) = (&fixture.ports.store, file(&fixture));
    let records = join_all((0..10).map(|_| submitted(store, row(new_task())))).await;
    // As a full disk does, in the midst of the others.
    let bad = records[5].task.id;
    let refuse = format!(
        "CREATE TRIGGER refuse BEFORE UPDATE ON tasks WHEN NEW.id = '{bad}'
         BEGIN SELECT RAISE(ROLLBACK, 'refused by this test'); END"
    );
    raw(&path).batch_execute(&refuse).unwrap();
    let committed = commit_after_a_wait(store, &path, &records).await;
    for (at, committed) in committed.iter().enumerate() {
        let as_alone = match committed {
            Err(error) => {
                at == 5 && matches!(error, CommitError::Store(StoreError::Unavailable(_)))
            }
            Ok(()) => at != 5,
        };
        assert!(as_alone, "{at}: {committed:?}");
    }
    for (at, before) in records.iter().enumerate() {
        let rev = load(store, before.task.id).await.task.rev;
        assert_eq!(
            rev,
            if at == 5 {
                before.task.rev
            } else {
                before.task.rev.next()
            }
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_takes_no_writes_is_not_ready_though_it_can_be_read() {
    let mut ports = fixture().await.ports.clone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.db");
    let options = SqliteOptions {
        busy_timeout: Duration::from_millis(50),
        ..SqliteOptions::default()
    };
    ports.store = SqliteStore::open(&path, options).await.unwrap().into();
    let engine = Engine::new(
        ports,
        Arc::new(Registry::new()),
        EngineSettings::default(),
        "api",
    );
    let present = engine.clone();
    let present = tokio::spawn(async move {
        worker_registry::keep_refreshed(&present, Part::default(), Box::pin(pending::<()>())).await
    });
    eventually("it is registered", || async {
        (!engine.ports.store.workers().await.unwrap().rows.is_empty()).then_some(())
    })
    .await;
    status::check_store(&engine).await.unwrap();
    let mut other = raw(&path);
    other.batch_execute("BEGIN IMMEDIATE").unwrap();
    let refused = status::check_store(&engine).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable(_))),
        "{refused:?}"
    );
    assert!(
        engine
            .ports
            .store
            .list(&TaskQuery {
                limit: 1,
                ..TaskQuery::default()
            })
            .await
            .unwrap()
            .lines
            .is_empty()
    );
    other.batch_execute("ROLLBACK").unwrap();
    status::check_store(&engine).await.unwrap();
    present.abort();
}

/// Not a test of anything:
/// `cargo test -p counterstep-adapters --release -- --ignored --nocapture commits_per_second`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures the commits a second of one SQLite file; its comment says how to run it"]
async fn commits_per_second_of_a_typical_transition() {
    let fixture = fixture().await;
    let store = &fixture.ports.store;
    for width in [1, 16] {
        let mut records = Vec::new();
        for _ in 0..width {
            records.push(claimed(store, MINUTE).await);
        }
        let started = Instant::now();
        let lanes = records.into_iter().map(|record| async move {
            let (mut done, mut record) = (0_u32, record);
            while started.elapsed() < Duration::from_secs(3) {
                let mut change = after(&record);
                let write = write_of(&mut change);
                write.row.audit_seq = write.row.audit_seq.next();
                let row = write.row.clone();
                change.audit = vec![audit(&row, "step-succeeded")];
                change.steps = record.steps.clone();
                commit(store, leased(&record), &change).await.unwrap();
                record.task = row;
                done += 1;
            }
            done
        });
        let done: u32 = join_all(lanes).await.into_iter().sum();
        println!(
            "{width} at a time: {:.0} commits a second",
            f64::from(done) / started.elapsed().as_secs_f64()
        );
    }
}
