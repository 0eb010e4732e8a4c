//! What a commit costs: round trips, and plans that walk indexes.

use super::{database, number, open, options, raw};
use crate::suite::changes::*;
use crate::suite::labels::labels;
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::{
    Attempt, AuditSeq, Direction, Epoch, Outcome, Rev, StepNo, TaskId, TaskStatus, Tenant,
};
use counterstep_kernel::change::transition::{AttemptWrite, ReceiveWrite, Transition};
use counterstep_kernel::ports::{
    ChildQuery, CommitError, DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, DuePlace,
    EndedTask, FailureFilter, Find, First, FlowQuery, Lost, OutboxOp, PlaceQuery, PurgeOp,
    ReceiveOp, Store, TaskQuery, Unclaimed,
};
use counterstep_kernel::record::{StepRow, TaskRecord, TaskRow};
use counterstep_steps::times::DbTime;
use counterstep_testkit::servers::Postgres;
use futures::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// "Step succeeded, next one started", with 200 bytes of output; its attempt numbers are the
/// revisions.
fn typical(record: &TaskRecord) -> Transition {
    let mut change = after(record);
    let write = write_of(&mut change);
    let number = i32::try_from(write.row.rev.0).unwrap();
    write.row.audit_seq = AuditSeq(write.row.audit_seq.0 + 2);
    let row = write.row.clone();
    let mut entries = [audit(&row, "step_succeeded"), audit(&row, "step_started")];
    entries[0].seq = AuditSeq(row.audit_seq.0 - 1);
    change.audit = entries.to_vec();
    let done = StepRow {
        output: Some("x".repeat(198).into()),
        ..StepRow::pending(StepNo(1), "one")
    };
    change.steps = vec![done, StepRow::pending(StepNo(2), "two")];
    change.attempts = vec![AttemptWrite::Start {
        step: StepNo(1),
        direction: Direction::Forward,
        attempt: Attempt(number),
        epoch: Epoch(1),
        sweep_after: 60 * MINUTE,
    }];
    if number > 3 {
        change
            .attempts
            .insert(0, end(number - 1, Outcome::Succeeded, false));
    }
    change
}

pub(super) async fn next(store: &Store, record: &mut TaskRecord) {
    let change = typical(record);
    let change = change.with_journal(Some(record), "test");
    let now = store
        .commit(leased(record), change.clone())
        .await
        .unwrap()
        .now;
    record.task = change.task.unwrap().row;
    record.task.updated_at = now;
}

/// Stands between a client and a server, and counts how often the client speaks after the server
/// has.
async fn counting_proxy(port: u16) -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (own, turns) = (
        listener.local_addr().unwrap().port(),
        Arc::new(AtomicU64::new(0)),
    );
    let counted = turns.clone();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let answered = Arc::new(AtomicBool::new(true));
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let (asks, turns) = (answered.clone(), counted.clone());
            tokio::spawn(copy(from_client, to_server, move || {
                if asks.swap(false, Ordering::SeqCst) {
                    turns.fetch_add(1, Ordering::SeqCst);
                }
            }));
            tokio::spawn(copy(from_server, to_client, move || {
                answered.store(true, Ordering::SeqCst)
            }));
        }
    });
    (own, turns)
}

async fn copy(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    seen: impl Fn(),
) -> std::io::Result<()> {
    let mut buffer = vec![0; 65536];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        seen();
        to.write_all(&buffer[..read]).await?;
    }
}

#[tokio::test]
async fn a_commit_a_load_and_a_put_are_one_round_trip_each() {
    let url = database().await;
    let port: u16 = url.rsplit(['/', ':']).nth(1).unwrap().parse().unwrap();
    let (proxy, turns) = counting_proxy(port).await;
    let through = url.replace(&format!(":{port}/"), &format!(":{proxy}/"));
    let store = open(
        &through,
        PostgresOptions {
            connections: 1,
            ..options()
        },
    )
    .await;
    let mut record = claimed(&store, MINUTE).await;
    for _ in 0..4 {
        next(&store, &mut record).await;
    }
    let before = turns.load(Ordering::SeqCst);
    for _ in 0..20 {
        next(&store, &mut record).await;
    }
    assert_eq!(turns.load(Ordering::SeqCst) - before, 20);
    for _ in 0..5 {
        load(&store, record.task.id).await;
    }
    assert_eq!(turns.load(Ordering::SeqCst) - before, 25);
    let put = |name: &str| DocumentWrite {
        kind: DocumentKind::Queue,
        tenant: Tenant::default(),
        name: name.to_owned(),
        expected: None,
        change: DocumentChange::Put {
            body: String::new(),
            due_at: None,
        },
    };
    for _ in 0..5 {
        store.put(&[put("one")]).await.unwrap();
    }
    let before = turns.load(Ordering::SeqCst);
    for _ in 0..5 {
        store.put(&[put("one")]).await.unwrap();
    }
    assert_eq!(turns.load(Ordering::SeqCst) - before, 5);
}

#[tokio::test]
async fn changes_that_are_refused_send_no_neighbour_again() {
    let url = database().await;
    let port: u16 = url.rsplit(['/', ':']).nth(1).unwrap().parse().unwrap();
    let (proxy, turns) = counting_proxy(port).await;
    let through = url.replace(&format!(":{port}/"), &format!(":{proxy}/"));
    let store = open(
        &through,
        PostgresOptions {
            connections: 1,
            ..options()
        },
    )
    .await;
    // The first time each text is prepared, which is a round trip of its own.
    for _ in 0..2 {
        let mut changes = Vec::new();
        for n in 0..20 {
            let mut record = claimed(&store, MINUTE).await;
            if n == 7 || n == 13 {
                // Its task has changed since.
                let stale = record.clone();
                next(&store, &mut record).await;
                record = stale;
            }
            changes.push((
                leased(&record),
                typical(&record).with_journal(Some(&record), "test"),
            ));
        }
        turns.store(0, Ordering::SeqCst);
        let committed = join_all(
            changes
                .iter()
                .map(|(guard, change)| store.commit(*guard, change.clone())),
        )
        .await;
        for (n, committed) in committed.iter().enumerate() {
            assert_eq!(
                matches!(committed, Err(CommitError::Stale)),
                n == 7 || n == 13,
                "{n}: {committed:?}"
            );
            assert_eq!(committed.is_ok(), n != 7 && n != 13, "{n}: {committed:?}");
        }
    }
    // The first one, all others, and one look why two were refused.
    assert_eq!(turns.load(Ordering::SeqCst), 2 + 1);
}

#[tokio::test]
async fn no_statement_reads_a_whole_table() {
    let url = database().await;
    let raw = raw(&url).await;
    alone(&raw).await;
    raw.batch_execute("SELECT pg_stat_reset()").await.unwrap();
    let store = open(
        &url,
        PostgresOptions {
            connections: 1,
            ..options()
        },
    )
    .await;
    let mut record = claimed(&store, MINUTE).await;
    for _ in 0..8 {
        next(&store, &mut record).await;
    }
    // Also more rows than go value by value.
    let mut change = after(&record);
    change.steps = (1..12)
        .map(|no| StepRow::pending(StepNo(no), "many"))
        .collect();
    commit(&store, leased(&record), &change).await.unwrap();
    store.load(record.task.id).await.unwrap();
    store.history(record.task.id).await.unwrap();
    store
        .heartbeat(record.task.id, Epoch(1), MINUTE)
        .await
        .unwrap();
    let queues = vec![counterstep_contracts::QueueName("files".into())];
    store
        .find(
            &Find::Claimable {
                queues,
                known: known(),
                unclaimed_for: Duration::ZERO,
                after: None,
            },
            9,
        )
        .await
        .unwrap();
    store.find(&Find::Lost(Lost::default()), 9).await.unwrap();
    let queues = vec![counterstep_contracts::QueueName("files".into())];
    let which = Unclaimed {
        queues,
        known: known(),
        for_at_least: Duration::ZERO,
        at_most: MINUTE,
    };
    store.find(&Find::Unclaimed(which), 9).await.unwrap();
    store.gauges(&[]).await.unwrap();
    store.gauges(&["order".to_owned()]).await.unwrap();
    let (kind, tenant) = (DocumentKind::Worker, Tenant::default());
    let put = || DocumentChange::Put {
        body: String::new(),
        due_at: None,
    };
    for (expected, change) in [
        (None, put()),
        (Some(Rev(0)), put()),
        (Some(Rev(1)), put()),
        (Some(Rev(2)), DocumentChange::Delete),
    ] {
        let write = DocumentWrite {
            kind,
            tenant: tenant.clone(),
            name: "worker:1".into(),
            expected,
            change,
        };
        store.put_document(&write).await.unwrap();
    }
    let place = DuePlace {
        due: DbTime(0),
        tenant: tenant.clone(),
        name: String::new(),
    };
    for query in [
        DocumentQuery::Named {
            kind,
            tenant: tenant.clone(),
            names: vec!["worker:1".into()],
        },
        DocumentQuery::DueOf {
            kind,
            tenant: tenant.clone(),
            limit: 9,
        },
        DocumentQuery::Page {
            kind,
            tenant,
            after: None,
            limit: 9,
        },
        DocumentQuery::Due {
            kind,
            after: None,
            limit: 9,
        },
        DocumentQuery::Due {
            kind,
            after: Some(place),
            limit: 9,
        },
        DocumentQuery::Latest { kind, limit: 9 },
    ] {
        store.documents(&query).await.unwrap();
    }
    store
        .list(&TaskQuery {
            limit: 9,
            ..TaskQuery::default()
        })
        .await
        .unwrap();
    store.in_flight().await.unwrap();
    each_of_relations(&store, record.task.id).await;
    store.above(&[record.task.id, new_task()]).await.unwrap();
    store
        .outbox(OutboxOp::PublishedOf(vec![new_change()]))
        .await
        .unwrap();
    let taken = store
        .outbox(OutboxOp::Take {
            older_than: Duration::ZERO,
            limit: 9,
        })
        .await
        .unwrap();
    store
        .outbox(OutboxOp::Published(
            taken.iter().map(|row| row.id).collect(),
        ))
        .await
        .unwrap();
    store.find(&Find::ToSweep, 9).await.unwrap();
    store.put_off(&[record.task.id], MINUTE).await.unwrap();
    let receives = [new_task(), new_task()];
    for task in receives {
        commit(&store, NEW, &begin(task, Duration::ZERO))
            .await
            .unwrap();
    }
    commit(&store, NEW, &submit_received(receives[0]))
        .await
        .unwrap();
    let abandon = Transition {
        receive: Some(ReceiveWrite::Abandoned),
        ..nothing(receives[1])
    };
    commit(&store, NEW, &abandon).await.unwrap();
    store
        .receives(&ReceiveOp::Of(receives.to_vec()))
        .await
        .unwrap();
    assert_eq!(
        store
            .receives(&ReceiveOp::Overdue { limit: 9 })
            .await
            .unwrap()
            .rows
            .len(),
        1
    );
    store
        .receives(&ReceiveOp::Condemn(receives.to_vec()))
        .await
        .unwrap();
    store
        .receives(&ReceiveOp::Swept(receives.to_vec()))
        .await
        .unwrap();
    let (task_type, status) = ("Zip".to_owned(), TaskStatus::Completed);
    for after in [None, Some(record.task.id)] {
        let task_type = task_type.clone();
        let ended = Find::Ended {
            task_type,
            status,
            before: MINUTE,
            after,
        };
        store.find(&ended, 9).await.unwrap();
    }
    let ended = submitted(
        &store,
        TaskRow {
            status,
            labels: labels(&[("order", "4711"), ("customer", "7"), ("region", "eu")]),
            ..row(new_task())
        },
    )
    .await
    .task;
    for (statuses, by) in [
        (vec![], vec![("order", "4711")]),
        (vec![status], vec![("order", "4711"), ("region", "eu")]),
    ] {
        let query = TaskQuery {
            tenant: Some(Tenant::default()),
            statuses,
            labels: labels(&by),
            limit: 9,
            ..TaskQuery::default()
        };
        assert_eq!(store.list(&query).await.unwrap().lines.len(), 1);
    }
    let failed = TaskQuery {
        tenant: Some(Tenant::default()),
        failure: FailureFilter {
            class: Some("permanent".into()),
            text: Some("no".into()),
        },
        limit: 9,
        ..TaskQuery::default()
    };
    store.list(&failed).await.unwrap();
    let ended_task = EndedTask {
        task: ended.id,
        tenant: ended.tenant,
        rev: ended.rev,
    };
    assert_eq!(
        store
            .purge(&PurgeOp::Purge(vec![ended_task]))
            .await
            .unwrap()
            .len(),
        1
    );
    store
        .purge(&PurgeOp::OldestTombstones { limit: 9 })
        .await
        .unwrap();
    store
        .purge(&PurgeOp::TombstonesOf(vec![ended.id]))
        .await
        .unwrap();
    store.purge(&PurgeOp::Forget(vec![ended.id])).await.unwrap();
    drop(store);
    alone(&raw).await;
    let whole = "SELECT relname || ': ' || seq_scan FROM pg_stat_user_tables
                 WHERE seq_scan > 0 AND relname <> '__diesel_schema_migrations'";
    let whole: Vec<String> = raw
        .query(whole, &[])
        .await
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(whole, Vec::<String>::new());
    let labelled = "SELECT count(*) FROM task_labels";
    assert_eq!(number(&raw, labelled).await, 0, "labels go with their task");
    let hot = "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'tasks'";
    assert!(
        number(&raw, hot).await >= 6,
        "the commits between a claim and the end are to change no index"
    );
}

/// Until the others in this database have ended: a server's process hands its counts in when it
/// does.
pub(super) async fn alone(raw: &tokio_postgres::Client) {
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    crate::suite::eventually("the end of the other connections", || async {
        (number(raw, others).await == 0).then_some(())
    })
    .await;
    // What this connection has read so far is counted now, and not with what it is to be compared with.
    let flush = "SELECT pg_stat_force_next_flush()";
    raw.batch_execute(flush).await.expect("its counts");
}

/// Not a test of anything:
/// `cargo test -p counterstep-adapters --all-features --release -- --ignored --nocapture typical_commits`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures the typical commits a second of a durable PostgreSQL; its comment says how to run it"]
async fn typical_commits_per_second() {
    let server = Postgres::durable();
    let url = server.database();
    PostgresStore::migrate(&url, &options()).await.unwrap();
    let store = open(
        &url,
        PostgresOptions {
            connections: 32,
            ..options()
        },
    )
    .await;
    // Every `again` changes are sent again, as at a redelivery, and are refused.
    let mut rates = Vec::new();
    for (width, again) in [(1, 0)].into_iter().chain([(32, 0), (32, 10)].repeat(5)) {
        let mut records = Vec::new();
        for _ in 0..width {
            records.push(claimed(&store, 60 * MINUTE).await);
        }
        let started = Instant::now();
        let lanes = records.into_iter().map(|mut record| {
            let store = store.clone();
            async move {
                let mut done = 0_u32;
                while started.elapsed() < Duration::from_secs(5) {
                    let before = record.clone();
                    next(&store, &mut record).await;
                    done += 1;
                    if done.is_multiple_of(again) {
                        let change = typical(&before).with_journal(Some(&before), "test");
                        let refused = store.commit(leased(&before), change.clone()).await;
                        assert!(matches!(refused, Err(CommitError::Stale)), "{refused:?}");
                    }
                    if done.is_multiple_of(4) {
                        record = claimed(&store, 60 * MINUTE).await;
                    }
                }
                done
            }
        });
        let done: u32 = join_all(lanes).await.into_iter().sum();
        println!(
            "{width} at a time, one in {again} refused (0: none): {:.0} typical commits a second",
            f64::from(done) / started.elapsed().as_secs_f64()
        );
        rates.push(f64::from(done) / started.elapsed().as_secs_f64());
    }
    let mut ratios: Vec<f64> = rates[1..].chunks(2).map(|pair| pair[1] / pair[0]).collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "with one in ten refused: {:.2} of the rate without, the median of {ratios:.2?}",
        ratios[2]
    );
}

/// What is asked of tasks above, below and beside a task, and of what came and went.
async fn each_of_relations(store: &Store, task: TaskId) {
    let children = ChildQuery {
        parent: task,
        step: None,
        statuses: Vec::new(),
        after: None,
        limit: 9,
    };
    store.children(&children).await.unwrap();
    store.child_counts(task).await.unwrap();
    store.wake(task).await.unwrap();
    store.reserved_until(task).await.unwrap();
    let flow = FlowQuery {
        since: DbTime(0),
        until: DbTime(1),
        task_types: vec!["Zip".to_owned()],
    };
    store.flow(&flow).await.unwrap();
    store.place_counts(None, 9).await.unwrap();
    for first in [First::Oldest, First::Newest] {
        let key = "Zip/default/1".to_owned();
        let places = PlaceQuery::Of {
            key,
            first,
            waiting: 9,
        };
        store.places(&places).await.unwrap();
    }
    store.places(&PlaceQuery::Tasks(vec![task])).await.unwrap();
}
