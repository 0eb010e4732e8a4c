//! A server that is slow: what goes on all the same, and what it costs.

use super::{database, hold, number, open, options, raw};
use crate::suite::changes::*;
use crate::suite::within_limit;
use counterstep_adapters::postgres::PostgresOptions;
use counterstep_contracts::{Epoch, Tenant};
use counterstep_kernel::ports::{
    DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, Heartbeat, TaskQuery, WaitingQuery,
};
use counterstep_testkit::servers::{Proxy, shared_postgres};
use futures::future::join_all;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(300);

fn patient(connections: usize) -> PostgresOptions {
    PostgresOptions {
        connections,
        wait: LONG,
        lock_timeout: LONG,
        statement_timeout: LONG,
        ..options()
    }
}

const HELD: Heartbeat = Heartbeat::Held {
    cancel_requested: false,
};

// One thread: on several, a statement may be free again while they are still being asked for.
#[tokio::test]
async fn heartbeats_of_many_tasks_share_a_statement() {
    let url = database().await;
    let proxy = Proxy::to(shared_postgres().port());
    let store = open(&proxy.url(&url), options()).await;
    let mut tasks = Vec::new();
    for _ in 0..60 {
        tasks.push(claimed(&store, MINUTE).await.task);
    }
    let beat = |at: usize, epoch| store.heartbeat(tasks[at].id, epoch, MINUTE);
    beat(0, tasks[0].epoch).await.expect("an answer");
    drop(proxy.take_statements());
    let all = (0..60).map(|at| beat(at, tasks[at].epoch));
    for held in join_all(all).await {
        assert_eq!(held.expect("an answer"), HELD);
    }
    let statements = proxy.take_statements();
    assert_eq!(
        statements.len(),
        2,
        "one alone, and all others together: {statements:?}"
    );
    let of = |at: usize| match at {
        // Its host has lost it.
        7 => beat(at, Epoch(tasks[at].epoch.0 + 1)),
        _ => beat(at, tasks[at].epoch),
    };
    for (at, held) in join_all((0..60).map(of)).await.into_iter().enumerate() {
        let expected = if at == 7 { Heartbeat::Lost } else { HELD };
        assert_eq!(held.expect("an answer"), expected, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_wait_for_no_other_statement() {
    let url = database().await;
    let store = open(&url, patient(8)).await;
    let record = claimed(&store, MINUTE).await;
    let other = raw(&url).await;
    other
        .batch_execute("BEGIN; LOCK TABLE documents IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let held: Vec<_> = (0..16)
        .map(|_| {
            let store = store.clone();
            let query = DocumentQuery::Latest {
                kind: DocumentKind::Worker,
                limit: 1,
            };
            tokio::spawn(async move { store.documents(&query).await })
        })
        .collect();
    super::waiting(&other).await;
    let beat = store.heartbeat(record.task.id, record.task.epoch, MINUTE);
    assert_eq!(within_limit("a heartbeat", beat).await.unwrap(), HELD);
    other.batch_execute("ROLLBACK").await.unwrap();
    for read in join_all(held).await {
        read.unwrap().unwrap();
    }
}

/// As where changes of them wait for a standby: each of these heartbeats waits for its row, on no connection.
#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_of_locked_tasks_hold_up_no_other() {
    let url = database().await;
    let store = open(&url, patient(8)).await;
    let mut locked = Vec::new();
    for _ in 0..8 {
        locked.push(claimed(&store, MINUTE).await.task);
    }
    let healthy = claimed(&store, MINUTE).await.task;
    let other = raw(&url).await;
    other.batch_execute("BEGIN").await.unwrap();
    for task in &locked {
        hold(&other, task.id).await;
    }
    let beats: Vec<_> = locked
        .iter()
        .map(|task| {
            let (store, id, epoch) = (store.clone(), task.id, task.epoch);
            tokio::spawn(async move { store.heartbeat(id, epoch, MINUTE).await })
        })
        .collect();
    // The limit of one of a lease of nine seconds.
    let third = Duration::from_secs(3);
    for round in 0..20 {
        let beat = store.heartbeat(healthy.id, healthy.epoch, MINUTE);
        let held = tokio::time::timeout(third, beat).await;
        let held = held.unwrap_or_else(|_| panic!("round {round}: no answer in time"));
        assert_eq!(held.unwrap(), HELD, "{round}");
    }
    let at_locks = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    other
        .batch_execute("SELECT pg_stat_clear_snapshot()")
        .await
        .unwrap();
    assert_eq!(number(&other, at_locks).await, 0);
    assert!(beats.iter().all(|beat| !beat.is_finished()));
    other.batch_execute("ROLLBACK").await.unwrap();
    for held in join_all(beats).await {
        assert_eq!(held.unwrap().unwrap(), HELD);
    }
}

/// Its server works on, so that a new connection for each would be one more.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_given_up_keeps_its_connection() {
    let url = database().await;
    let application_name = "given-up";
    let options = PostgresOptions {
        application_name: application_name.to_owned(),
        ..patient(8)
    };
    let store = open(&url, options).await;
    let put = |name: u32| {
        let store = store.clone();
        let write = DocumentWrite {
            kind: DocumentKind::Queue,
            tenant: Tenant::default(),
            name: name.to_string(),
            expected: None,
            change: DocumentChange::Put {
                body: "{}".to_owned(),
                due_at: None,
            },
        };
        tokio::spawn(async move { store.put(&[write]).await })
    };
    let other = raw(&url).await;
    other
        .batch_execute("BEGIN; LOCK TABLE documents IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    for name in 0..30 {
        let mut given_up = put(name);
        let answer = tokio::time::timeout(Duration::from_millis(20), &mut given_up).await;
        assert!(answer.is_err(), "{answer:?}");
        given_up.abort();
    }
    super::waiting(&other).await;
    // Reads have a connection all the same.
    within_limit("a read", store.load(new_task()))
        .await
        .unwrap();
    let ours = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{application_name}'"
    );
    other
        .batch_execute("SELECT pg_stat_clear_snapshot()")
        .await
        .unwrap();
    let connections = number(&other, &ours).await;
    assert!((2..=8).contains(&connections), "{connections}");
    other.batch_execute("ROLLBACK").await.unwrap();
    within_limit("a write", put(30)).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pauses_are_read_however_many_ask_for_lists() {
    let url = database().await;
    let store = open(&url, patient(3)).await;
    let other = raw(&url).await;
    other
        .batch_execute("BEGIN; LOCK TABLE tasks IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let lists: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.list(&TaskQuery::default()).await })
        })
        .collect();
    super::waiting(&other).await;
    let pauses = DocumentQuery::Page {
        kind: DocumentKind::Queue,
        tenant: Tenant::default(),
        after: None,
        limit: 10,
    };
    within_limit("pauses", store.documents(&pauses))
        .await
        .unwrap();
    other.batch_execute("ROLLBACK").await.unwrap();
    for list in join_all(lists).await {
        list.unwrap().unwrap();
    }
}

/// A connection that was closed is busy at the server until its statement ends: so more of them would be counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_count_that_is_given_up_keeps_its_connection() {
    let url = database().await;
    let store = open(&url, patient(8)).await;
    let count = |tenant: u32| {
        let store = store.clone();
        let query = WaitingQuery {
            tenant: Tenant(tenant.to_string()),
            task_type: None,
            at_most: 10,
        };
        tokio::spawn(async move { store.waiting(&query).await })
    };
    let other = raw(&url).await;
    other
        .batch_execute("BEGIN; LOCK TABLE tasks IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let first = count(0);
    super::waiting(&other).await;
    first.abort();
    for tenant in 1..30 {
        let mut given_up = count(tenant);
        let answer = tokio::time::timeout(Duration::from_millis(20), &mut given_up).await;
        assert!(answer.is_err(), "{answer:?}");
        given_up.abort();
    }
    let ours = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    other
        .batch_execute("SELECT pg_stat_clear_snapshot()")
        .await
        .unwrap();
    let connections = number(&other, ours).await;
    assert!(connections <= 2, "{connections}");
    // Others are not held up by them, and what they wait for is over with the lock.
    let pauses = DocumentQuery::Page {
        kind: DocumentKind::Queue,
        tenant: Tenant::default(),
        after: None,
        limit: 10,
    };
    within_limit("another read", store.documents(&pauses))
        .await
        .unwrap();
    other.batch_execute("ROLLBACK").await.unwrap();
    let counted = within_limit("a count", count(0)).await;
    assert_eq!(counted.unwrap().unwrap(), 0);
}
