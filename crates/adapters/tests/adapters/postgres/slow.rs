//! A server that is slow: what goes on all the same, and what it costs.

use super::{database, number, open, options, raw};
use crate::suite::changes::*;
use crate::suite::within_limit;
use counterstep_adapters::postgres::PostgresOptions;
use counterstep_contracts::{Epoch, Tenant};
use counterstep_kernel::ports::{DocumentKind, DocumentQuery, Heartbeat, TaskQuery, WaitingQuery};
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
