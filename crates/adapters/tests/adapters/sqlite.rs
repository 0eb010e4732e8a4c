//! What only the SQLite file can be asked: several stores on it, newer schemas, rows that nobody
//! understands, and the queue on its rows.

use crate::embedded::{Fixture, fixture, open_in, options};
use crate::suite::changes::*;
use crate::suite::queue::ACK_WAIT;
use crate::suite::{LIMIT, eventually};
use counterstep_adapters::embedded::EmbeddedOptions;
use counterstep_adapters::local_queue::QueueOptions;
use counterstep_adapters::sqlite::{OpenError, SqliteOptions, SqliteStore};
use counterstep_contracts::{Epoch, Outcome, QueueName, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::documents::TypedDocuments;
use counterstep_kernel::ports::{
    CommitError, Due, Lost, OutboxOp, Poison, PoisonRow, Settle, Store, StoreError, SweepOp,
    TaskQuery,
};
use counterstep_kernel::presence::Part;
use counterstep_kernel::record::{Intention, TaskRecord, TaskRow};
use counterstep_kernel::transition::{LeaseChange, Time};
use counterstep_kernel::{CancelToken, Engine, EngineSettings, Registry};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use futures::FutureExt;
use futures::future::join_all;
use std::collections::HashSet;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) fn file(fixture: &Fixture) -> PathBuf {
    fixture.folder.path().join("data/counterstep.db")
}

pub(crate) fn raw(path: &Path) -> SqliteConnection {
    SqliteConnection::establish(path.to_str().unwrap()).unwrap()
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    n: i64,
}

fn number(connection: &mut SqliteConnection, query: &str) -> i64 {
    diesel::sql_query(query)
        .get_result::<Number>(connection)
        .unwrap()
        .n
}

/// Changes whenever another connection writes.
fn data_version(connection: &mut SqliteConnection) -> i64 {
    number(
        connection,
        "SELECT data_version AS n FROM pragma_data_version",
    )
}

#[tokio::test]
async fn two_stores_on_one_file_race_fifty_claims_and_one_wins_each() {
    let fixture = fixture().await;
    let other = open_in(fixture.folder.path(), options()).await;
    let stores = [&*fixture.ports.store, &*other.store];
    let mut records = Vec::new();
    for _ in 0..50 {
        records.push(submitted(stores[0], row(new_task())).await);
    }
    let claims: Vec<_> = records
        .iter()
        .flat_map(|record| stores.map(|store| (store, record, claim(record, "one of two", MINUTE))))
        .collect();
    let results = join_all(
        claims
            .iter()
            .map(|(store, record, claim)| commit(*store, free(record), claim)),
    )
    .await;
    for pair in results.chunks(2) {
        assert_eq!(
            pair.iter().filter(|result| result.is_ok()).count(),
            1,
            "{pair:?}"
        );
        assert!(
            pair.iter()
                .any(|result| matches!(result, Err(CommitError::Stale))),
            "{pair:?}"
        );
    }
}

#[tokio::test]
async fn several_stores_open_a_new_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let opened = join_all((0..8).map(|_| SqliteStore::open(&path, SqliteOptions::default()))).await;
    for store in opened {
        let store = store.unwrap();
        submitted(&store, row(new_task())).await;
    }
    assert_eq!(
        number(&mut raw(&path), "SELECT count(*) AS n FROM tasks"),
        8
    );
}

#[tokio::test]
async fn what_was_committed_is_there_after_a_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.db");
    let store = SqliteStore::open(&path, SqliteOptions::default())
        .await
        .unwrap();
    let record = submitted(&store, row(new_task())).await;
    drop(store);
    let store = SqliteStore::open(&path, SqliteOptions::default())
        .await
        .unwrap();
    assert_eq!(load(&store, record.task.id).await.task, record.task);
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_the_file_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("newer.db");
    drop(
        SqliteStore::open(&path, SqliteOptions::default())
            .await
            .unwrap(),
    );
    let newer = "INSERT INTO __diesel_schema_migrations (version) VALUES ('29990101000000');
        PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE";
    raw(&path).batch_execute(newer).unwrap();
    let before = std::fs::read(&path).unwrap();
    let refused = SqliteStore::open(&path, SqliteOptions::default()).await;
    assert!(
        matches!(&refused, Err(OpenError::NewerSchema { version }) if version == "29990101000000"),
        "{refused:?}"
    );
    assert!(std::fs::read(&path).unwrap() == before, "the file changed");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    std::fs::write(
        &path,
        "not a database at all, but long enough to be looked at".repeat(20),
    )
    .unwrap();
    let refused = SqliteStore::open(&path, SqliteOptions::default()).await;
    assert!(refused.is_err(), "{refused:?}");
}

#[tokio::test]
async fn one_row_that_nobody_understands_does_not_hide_the_others() {
    let fixture = fixture().await;
    let store = &*fixture.ports.store;
    let mut rows: Vec<TaskId> = Vec::new();
    for _ in 0..3 {
        rows.push(submitted(store, row(new_task())).await.task.id);
    }
    let newer = rows[1];
    raw(&file(&fixture))
        .batch_execute(&format!(
            "UPDATE tasks SET status = 'levitating', due_at = 1 WHERE id = '{newer}'"
        ))
        .unwrap();
    let corrupt = store.load(newer).await;
    assert!(
        matches!(&corrupt, Err(StoreError::Corrupt(why)) if why.contains("levitating")),
        "{corrupt:?}"
    );
    let due = Due::Claimable {
        queues: vec![QueueName("files".into())],
        known: known(),
        unclaimed_for: Duration::ZERO,
    };
    let found: Vec<_> = store
        .due(&due, 10)
        .await
        .unwrap()
        .into_iter()
        .map(|due| due.task)
        .collect();
    assert_eq!(found, [rows[0], rows[2]]);
    // The page is full all the same.
    let page = store
        .list(&TaskQuery {
            limit: 2,
            ..TaskQuery::default()
        })
        .await
        .unwrap();
    assert_eq!(
        page.into_iter().map(|line| line.task).collect::<Vec<_>>(),
        [rows[2], rows[0]]
    );

    raw(&file(&fixture))
        .batch_execute(&format!(
            "UPDATE journal SET data = '{{' WHERE task = '{}'",
            rows[0]
        ))
        .unwrap();
    assert!(matches!(
        store.load(rows[0]).await,
        Err(StoreError::Corrupt(_))
    ));
    assert_eq!(store.due(&due, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_commit_whose_caller_goes_away_leaves_no_transaction_open() {
    let fixture = fixture().await;
    let store = &*fixture.ports.store;
    for _ in 0..20 {
        let change = submit(row(new_task())).with_journal(None, "test");
        // Polled until the closure runs, or not yet; then dropped.
        let _ = store.commit(NEW, &change).now_or_never();
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
    let store = SqliteStore::open(&path, options).await.unwrap();
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
    store: &dyn Store,
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
            .map(|(guard, change)| store.commit(*guard, change)),
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
    let (store, path) = (&*fixture.ports.store, file(&fixture));
    let records = join_all((0..40).map(|_| submitted(store, row(new_task())))).await;
    // Each transaction that writes notes its time.
    let count = "CREATE TABLE transactions (n INTEGER);
        CREATE TRIGGER one AFTER UPDATE ON clock BEGIN INSERT INTO transactions VALUES (1); END";
    raw(&path).batch_execute(count).unwrap();
    let committed = commit_after_a_wait(store, &path, &records).await;
    assert!(committed.iter().all(Result::is_ok), "{committed:?}");
    // The first one had found nobody at work.
    assert_eq!(
        number(&mut raw(&path), "SELECT count(*) AS n FROM transactions"),
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_writes_without_end_leaves_room_for_another() {
    let fixture = fixture().await;
    let other = open_in(fixture.folder.path(), options()).await;
    let store = &*fixture.ports.store;
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
            submitted(&*other.store, row(new_task())).await;
        }
        is_done.store(true, Ordering::SeqCst);
    };
    tokio::join!(busy, writes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_rolls_its_transaction_back_takes_no_neighbour_with_it() {
    let fixture = fixture().await;
    let (store, path) = (&*fixture.ports.store, file(&fixture));
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
    ports.store = Arc::new(SqliteStore::open(&path, options).await.unwrap());
    let engine = Engine::new(
        ports,
        Arc::new(Registry::new()),
        EngineSettings::default(),
        "api",
    );
    let present = engine.clone();
    let present = tokio::spawn(async move {
        present
            .present(Part::default(), Box::pin(pending::<()>()))
            .await
    });
    eventually("it is registered", || async {
        (!engine.ports.store.workers().await.unwrap().rows.is_empty()).then_some(())
    })
    .await;
    engine.check_store().await.unwrap();
    let mut other = raw(&path);
    other.batch_execute("BEGIN IMMEDIATE").unwrap();
    let refused = engine.check_store().await;
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
            .is_empty()
    );
    other.batch_execute("ROLLBACK").unwrap();
    engine.check_store().await.unwrap();
    present.abort();
}

#[tokio::test]
async fn the_queue_writes_nothing() {
    let fixture = fixture().await;
    let (store, queue) = (&*fixture.ports.store, &*fixture.ports.queue);
    submitted(store, row(new_task())).await;
    let mut watcher = raw(&file(&fixture));
    let before = data_version(&mut watcher);
    let queues = [QueueName("files".into())];
    let delivery = queue.fetch(&queues, 1, LIMIT).await.unwrap().remove(0);
    queue.settle(&delivery.tag, Settle::Ack).await.unwrap();
    assert_eq!(
        queue
            .fetch(&queues, 5, Duration::from_millis(200))
            .await
            .unwrap(),
        []
    );
    store.due(&Due::Lost(Lost::default()), 5).await.unwrap();
    assert_eq!(data_version(&mut watcher), before);
    submitted(store, row(new_task())).await;
    assert_ne!(data_version(&mut watcher), before);
}

#[tokio::test]
async fn what_is_claimed_is_not_delivered_and_makes_room_for_what_waits_behind_it() {
    let fixture = fixture().await;
    let (store, queue) = (&*fixture.ports.store, &*fixture.ports.queue);
    let queues = [QueueName("files".into())];
    let mut waiting = Vec::new();
    for _ in 0..40 {
        waiting.push(submitted(store, row(new_task())).await);
    }
    let mut delivered = HashSet::new();
    for _ in 0..10 {
        let some = queue.fetch(&queues, 4, Duration::ZERO).await.unwrap();
        assert_eq!(some.len(), 4);
        for delivery in some {
            let task = delivery.message.as_ref().unwrap().task;
            assert!(delivered.insert(task), "{task} was delivered twice");
            // Some are claimed; some have a turn that ended without.
            if delivered.len() % 2 == 0 {
                let record = load(store, task).await;
                commit(store, free(&record), &claim(&record, "one", MINUTE))
                    .await
                    .unwrap();
            }
            queue.settle(&delivery.tag, Settle::Ack).await.unwrap();
        }
    }
    assert_eq!(queue.fetch(&queues, 50, 2 * ACK_WAIT).await.unwrap(), []);
}

#[tokio::test]
async fn a_task_that_is_due_is_delivered_before_what_waits_for_a_shorter_time() {
    let fixture = fixture().await;
    let (store, queue) = (&*fixture.ports.store, &*fixture.ports.queue);
    let queues = [QueueName("files".into())];
    let waits = async |due| {
        let mut change = submit(TaskRow {
            status: TaskStatus::Waiting,
            waiting: Some(WaitReason::Retry),
            ..row(new_task())
        });
        write_of(&mut change).due = Time::In(due);
        commit(store, NEW, &change).await.unwrap();
        change.task_id
    };
    let due = waits(Duration::ZERO).await;
    waits(MINUTE).await;
    let unreadable = submitted(store, row(new_task())).await.task.id;
    raw(&file(&fixture))
        .batch_execute(&format!(
            "UPDATE tasks SET version = -1 WHERE id = '{unreadable}'"
        ))
        .unwrap();
    let behind = submitted(store, row(new_task())).await.task.id;
    for expected in [due, behind] {
        let found = queue.fetch(&queues, 1, LIMIT).await.unwrap();
        assert_eq!(
            found
                .iter()
                .map(|one| one.message.as_ref().unwrap().task)
                .collect::<Vec<_>>(),
            [expected]
        );
    }
    assert_eq!(queue.fetch(&queues, 5, Duration::ZERO).await.unwrap(), []);
}

#[tokio::test]
async fn a_task_whose_host_is_lost_is_delivered_again_after_its_lease() {
    let fixture = fixture().await;
    let (store, queue) = (&*fixture.ports.store, &*fixture.ports.queue);
    let queues = [QueueName("files".into())];
    let lost = claimed(store, Duration::from_millis(1)).await.task.id;
    claimed(store, MINUTE).await;
    let delivery = queue.fetch(&queues, 5, LIMIT).await.unwrap();
    assert_eq!(
        delivery
            .iter()
            .map(|one| one.message.as_ref().unwrap().task)
            .collect::<Vec<_>>(),
        [lost]
    );
    assert_eq!(queue.fetch(&queues, 5, Duration::ZERO).await.unwrap(), []);
}

#[tokio::test]
async fn the_doorbell_wakes_a_fetch_long_before_its_poll() {
    let folder = tempfile::tempdir().unwrap();
    let queue = QueueOptions {
        poll: 10 * LIMIT,
        ..QueueOptions::default()
    };
    let ports = open_in(
        folder.path(),
        EmbeddedOptions {
            queue,
            ..EmbeddedOptions::default()
        },
    )
    .await;
    let fetching = ports.queue.clone();
    let fetch = tokio::spawn(async move {
        fetching
            .fetch(&[QueueName("files".into())], 1, 10 * LIMIT)
            .await
    });
    // Whether the fetch already waits or is still looking, it must not miss it.
    let record = submitted(&*ports.store, row(new_task())).await;
    ports
        .queue
        .publish(&QueueName("files".into()), &message(record.task.id, 1))
        .await
        .unwrap();
    let found = tokio::time::timeout(LIMIT, fetch)
        .await
        .expect("the doorbell")
        .unwrap()
        .unwrap();
    assert_eq!(found[0].message.as_ref().unwrap().task, record.task.id);
}

#[tokio::test]
async fn two_processes_share_the_messages_and_hear_of_each_others() {
    let fixture = fixture().await;
    let other = open_in(fixture.folder.path(), options()).await;
    let queues = [QueueName("files".into())];
    // Committed by one, fetched by the other, without a doorbell.
    let record = submitted(&*fixture.ports.store, row(new_task())).await;
    let delivery = other
        .queue
        .fetch(&queues, 1, LIMIT)
        .await
        .unwrap()
        .remove(0);
    assert_eq!(delivery.message.as_ref().unwrap().task, record.task.id);
    commit(
        &*other.store,
        free(&record),
        &claim(&record, "other", MINUTE),
    )
    .await
    .unwrap();
    other
        .queue
        .settle(&delivery.tag, Settle::Ack)
        .await
        .unwrap();

    let mut sent = HashSet::new();
    for _ in 0..30 {
        sent.insert(
            submitted(&*fixture.ports.store, row(new_task()))
                .await
                .task
                .id,
        );
    }
    // Both may be given the same one: the claim decides.
    for ports in [&fixture.ports, &other] {
        let seen = ports.queue.fetch(&queues, 50, LIMIT).await.unwrap();
        assert_eq!(
            seen.iter()
                .map(|one| one.message.as_ref().unwrap().task)
                .collect::<HashSet<_>>(),
            sent
        );
    }
}

#[tokio::test]
async fn a_settlement_of_an_earlier_delivery_counts_for_nothing() {
    let fixture = fixture().await;
    let queue = &*fixture.ports.queue;
    let queues = [QueueName("files".into())];
    submitted(&*fixture.ports.store, row(new_task())).await;
    let first = queue.fetch(&queues, 1, LIMIT).await.unwrap().remove(0);
    queue.fetch(&queues, 1, LIMIT).await.unwrap().remove(0);
    // The second delivery is at work: the first one's ack must not take its message away.
    queue.settle(&first.tag, Settle::Ack).await.unwrap();
    assert_eq!(queue.fetch(&queues, 1, LIMIT).await.unwrap().len(), 1);
    let foreign = queue
        .settle(
            &counterstep_kernel::ports::DeliveryTag("x".into()),
            Settle::Ack,
        )
        .await;
    assert!(foreign.is_err());
}

#[tokio::test]
async fn poison_is_kept_once_for_a_person_to_look_at() {
    let fixture = fixture().await;
    for size_bytes in [70_000, 1] {
        let payload = vec![0xff; 70_000].into();
        let poison = Poison {
            size_bytes,
            ..Poison::new(
                "work/7".into(),
                "work.files.x".into(),
                &payload,
                "why".into(),
            )
        };
        let row = PoisonRow {
            queue: QueueName("files".into()),
            poison,
        };
        assert_eq!(
            fixture
                .ports
                .store
                .outbox(OutboxOp::Poison(row))
                .await
                .unwrap(),
            []
        );
    }
    let kept = "SELECT count(*) AS n FROM poison WHERE source = 'work/7' AND queue = 'files' AND reason = 'why'
                AND subject = 'work.files.x' AND size_bytes = 70000 AND length(payload) = 65536 AND at > 0";
    assert_eq!(number(&mut raw(&file(&fixture)), kept), 1);
}

/// Not a test of anything:
/// `cargo test -p counterstep-adapters --release -- --ignored --nocapture commits_per_second`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures the commits a second of one SQLite file; its comment says how to run it"]
async fn commits_per_second_of_a_typical_transition() {
    let fixture = fixture().await;
    let store = &*fixture.ports.store;
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

#[tokio::test]
async fn a_task_that_cannot_be_read_is_put_off_and_the_others_are_swept() {
    let fixture = fixture().await;
    let store = &*fixture.ports.store;
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let record = claimed(store, MINUTE).await;
        let mut change = after(&record);
        change.attempts = vec![
            start(1, Epoch(1), Duration::ZERO),
            end(1, Outcome::Failed, false),
        ];
        write_of(&mut change).lease = LeaseChange::Release;
        commit(store, leased(&record), &change).await.unwrap();
        tasks.push(record.task.id);
    }
    let [broken, other] = tasks[..] else {
        panic!("{tasks:?}")
    };
    let spoil = |entries: &str| {
        format!("UPDATE journal SET entries = '{entries}' WHERE task = '{broken}' AND rev = 2")
    };
    raw(&file(&fixture)).batch_execute(&spoil("{")).unwrap();
    let engine = Engine::new(
        fixture.ports.clone(),
        Arc::new(Registry::new()),
        EngineSettings::default(),
        "test",
    );
    let plan = engine.plan_sweep(9).await.unwrap();
    assert_eq!(
        plan.condemn
            .iter()
            .map(|intent| intent.task)
            .collect::<Vec<_>>(),
        [other]
    );
    assert!(
        matches!(&plan.unreadable[..], [(task, _)] if *task == broken),
        "{plan:?}"
    );
    let swept = engine.sweep(plan, &CancelToken::new()).await.unwrap();
    assert!(
        matches!(&swept.failed[..], [(what, _)] if *what == broken.to_string()),
        "{swept:?}"
    );
    assert_eq!(swept.prefixes, 1);
    assert_eq!(load(store, other).await.marks[0].objects, Intention::Swept);
    // Not at each pass, but it is looked at again.
    assert_eq!(store.sweeps(&SweepOp::Due { limit: 9 }).await.unwrap(), []);
    let later = "SELECT count(*) AS n FROM tasks WHERE sweep_at IS NOT NULL";
    assert_eq!(number(&mut raw(&file(&fixture)), later), 1);
}
