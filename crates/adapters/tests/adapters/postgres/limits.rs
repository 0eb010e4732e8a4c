//! Limits and losses: what a commit is called when the server, the connection or the caller gives
//! up.

use super::{database, fixture, hold, lock, number, open, options, raw, waiting};
use crate::suite::changes::*;
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::{Host, QueueName};
use counterstep_kernel::host::{HostSettings, Spawn, serve};
use counterstep_kernel::ports::{CommitError, StoreError};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_steps::{CancelReason, CancelToken};
use counterstep_testkit::servers::Postgres;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn a_commit_whose_connection_dies_is_unknown() {
    let fixture = fixture().await;
    let record = submitted(&fixture.ports.store, row(new_task())).await;
    let other = raw(&fixture.url).await;
    lock(&other, record.task.id).await;
    let (store, guard, change) = (
        fixture.ports.store.clone(),
        free(&record),
        claim(&record, "one", MINUTE).with_journal(Some(&record), "test"),
    );
    let committing = tokio::spawn(async move { store.commit(guard, change.clone()).await });
    let pid = waiting(&other).await;
    other
        .execute("SELECT pg_terminate_backend($1)", &[&pid])
        .await
        .unwrap();
    let unknown = committing.await.unwrap();
    assert!(
        matches!(unknown, Err(CommitError::Store(StoreError::Unknown(_)))),
        "{unknown:?}"
    );
    other.batch_execute("ROLLBACK").await.unwrap();
    // What happened is in the row, and the next connection is a new one.
    assert_eq!(
        load(&fixture.ports.store, record.task.id).await.task,
        record.task
    );
    commit(
        &fixture.ports.store,
        free(&record),
        &claim(&record, "one", MINUTE),
    )
    .await
    .unwrap();
}

async fn refused_at_the_lock(options: PostgresOptions, words: &str) {
    let url = database().await;
    let store = open(&url, options).await;
    let record = submitted(&store, row(new_task())).await;
    let other = raw(&url).await;
    lock(&other, record.task.id).await;
    let refused = commit(&store, free(&record), &claim(&record, "one", MINUTE)).await;
    let Err(CommitError::Store(StoreError::Unavailable(text))) = refused else {
        panic!("{refused:?}")
    };
    assert!(text.contains(words), "{text}");
    // The server itself has stopped: nothing of it is left, and the connection serves on.
    let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    assert_eq!(number(&other, busy).await, 0);
    let ours = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    other.batch_execute("ROLLBACK").await.unwrap();
    commit(&store, free(&record), &claim(&record, "one", MINUTE))
        .await
        .unwrap();
    assert_eq!(number(&other, ours).await, 1);
}

#[tokio::test]
async fn the_server_stops_a_statement_that_takes_too_long() {
    // Long enough for every other statement on a busy machine.
    let statement_timeout = Duration::from_secs(2);
    refused_at_the_lock(
        PostgresOptions {
            connections: 1,
            statement_timeout,
            ..options()
        },
        "statement timeout",
    )
    .await;
}

#[tokio::test]
async fn the_server_stops_a_statement_that_waits_too_long_for_a_lock() {
    let lock_timeout = Duration::from_millis(300);
    refused_at_the_lock(
        PostgresOptions {
            connections: 1,
            lock_timeout,
            ..options()
        },
        "lock timeout",
    )
    .await;
}

#[tokio::test]
async fn a_connection_whose_caller_left_is_not_used_again() {
    let url = database().await;
    let store = open(
        &url,
        PostgresOptions {
            connections: 3,
            ..options()
        },
    )
    .await;
    let record = submitted(&store, row(new_task())).await;
    let other = raw(&url).await;
    lock(&other, record.task.id).await;
    let (committing, guard, change) = (
        store.clone(),
        free(&record),
        claim(&record, "one", MINUTE).with_journal(Some(&record), "test"),
    );
    let committing = tokio::spawn(async move { committing.commit(guard, change.clone()).await });
    waiting(&other).await;
    committing.abort();
    assert!(committing.await.unwrap_err().is_cancelled());
    // On the old connection this would stand behind the statement that still waits for the lock.
    assert_eq!(load(&store, record.task.id).await.task, record.task);
    other.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn a_call_waits_for_a_connection_only_so_long() {
    let url = database().await;
    let options = PostgresOptions {
        connections: 1,
        wait: Duration::from_millis(100),
        ..options()
    };
    let store = open(&url, options).await;
    let record = submitted(&store, row(new_task())).await;
    let other = raw(&url).await;
    lock(&other, record.task.id).await;
    let (committing, guard, change) = (
        store.clone(),
        free(&record),
        claim(&record, "one", MINUTE).with_journal(Some(&record), "test"),
    );
    let committing = tokio::spawn(async move { committing.commit(guard, change.clone()).await });
    waiting(&other).await;
    assert!(matches!(
        store.load(record.task.id).await,
        Err(StoreError::Unavailable(_))
    ));
    other.batch_execute("ROLLBACK").await.unwrap();
    committing.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_restart_of_the_server_is_survived() {
    let server = Arc::new(Postgres::start());
    let url = server.database();
    PostgresStore::migrate(&url, &options()).await.unwrap();
    let store = open(&url, options()).await;
    let mut record = submitted(&store, row(new_task())).await;
    for _ in 0..2 {
        let restarting = server.clone();
        tokio::task::spawn_blocking(move || restarting.restart())
            .await
            .unwrap();
        record = crate::suite::eventually("an answer", || async {
            store.load(record.task.id).await.ok().flatten()
        })
        .await;
        commit(&store, free(&record), &after(&record))
            .await
            .unwrap();
        record = load(&store, record.task.id).await;
    }
    server.stop();
    assert!(matches!(
        store.load(record.task.id).await,
        Err(StoreError::Unavailable(_))
    ));
    let refused = commit(&store, free(&record), &after(&record)).await;
    assert!(
        matches!(
            refused,
            Err(CommitError::Store(
                StoreError::Unavailable(_) | StoreError::Unknown(_)
            ))
        ),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_locked_tasks_do_not_hold_up_the_others() {
    let url = database().await;
    // The locked ones wait for longer than this test.
    let long = Duration::from_secs(300);
    let options = PostgresOptions {
        connections: 12,
        lock_timeout: long,
        statement_timeout: long,
        ..options()
    };
    let store = open(&url, options).await;
    let mut locked = Vec::new();
    for _ in 0..4 {
        locked.push(submitted(&store, row(new_task())).await);
    }
    let other = raw(&url).await;
    other.batch_execute("BEGIN").await.unwrap();
    for record in &locked {
        hold(&other, record.task.id).await;
    }
    let changes: Vec<_> = (0..32)
        .map(|n| {
            let (store, record) = (store.clone(), locked[n % 4].clone());
            tokio::spawn(async move { commit(&store, free(&record), &after(&record)).await })
        })
        .collect();
    waiting(&other).await;
    for _ in 0..20 {
        let free_task = async {
            let record = submitted(&store, row(new_task())).await;
            commit(&store, free(&record), &after(&record))
                .await
                .unwrap();
        };
        crate::suite::within_limit("a change of a task that is not locked", free_task).await;
    }
    other.batch_execute("ROLLBACK").await.unwrap();
    let results = futures::future::join_all(changes).await;
    let written = results
        .iter()
        .filter(|result| matches!(result, Ok(Ok(_))))
        .count();
    assert_eq!(
        written, 4,
        "of the changes that build on one revision one is written: {results:?}"
    );
}

/// What it looks for is read only, and comes to nothing: it is told to stop.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_told_to_stop_waits_for_no_look_at_the_database() {
    let long = Duration::from_secs(600);
    let url = database().await;
    let fixture = fixture().await;
    let store = open(
        &url,
        PostgresOptions {
            wait: long,
            lock_timeout: long,
            statement_timeout: long,
            ..options()
        },
    )
    .await;
    let ports = counterstep_kernel::ports::Ports {
        store,
        ..fixture.ports.clone()
    };
    let engine = Engine::new(ports, Arc::default(), EngineSettings::default(), "worker");
    let other = raw(&url).await;
    other
        .batch_execute("BEGIN; LOCK TABLE tasks IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let queues = vec![QueueName("files".into())];
    let poll = Duration::from_millis(1);
    let settings = HostSettings {
        host: Host::Worker,
        queues,
        concurrency: 1,
        poll,
        unclaimed_for: Duration::ZERO,
    };
    let shutdown = CancelToken::new();
    let spawn: Spawn = Arc::new(|future| drop(tokio::spawn(future)));
    let serving = tokio::spawn(serve(engine, settings, shutdown.clone(), spawn));
    waiting(&other).await;
    shutdown.cancel(CancelReason::Shutdown);
    crate::suite::within_limit("an end", serving).await.unwrap();
    other.batch_execute("ROLLBACK").await.unwrap();
}
