//! The store behind PgBouncer in transaction mode.

use super::own_transactions::{execute, keyed, statement};
use super::plans::alone;
use super::{number, open, options, raw};
use crate::suite::changes::*;
use crate::suite::children::family;
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_kernel::ports::{Heartbeat, OutboxOp, Store, TaskQuery};
use counterstep_testkit::servers::{PgBouncer, shared_postgres};
use futures::future::join_all;
use std::time::Duration;
use tokio_postgres::SimpleQueryMessage;

/// What a session has besides what the pooler gives each of its clients.
const LEFT: &str = "SELECT 'prepared: ' || statement FROM pg_prepared_statements UNION ALL
    SELECT 'set: ' || name FROM pg_settings WHERE source = 'session' AND name NOT IN
    ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings')";

/// The ways of a task, a relay and a list.
async fn works(store: &Store) {
    let mut record = claimed(store, MINUTE).await;
    for _ in 0..5 {
        let mut change = after(&record);
        change.events = vec![event(record.task.id, 1)];
        commit(store, leased(&record), &change).await.unwrap();
        record = load(store, record.task.id).await;
        let beat = store
            .heartbeat(record.task.id, record.task.epoch, MINUTE)
            .await
            .unwrap();
        assert!(matches!(beat, Heartbeat::Held { .. }));
        store.history(record.task.id).await.unwrap();
        store
            .list(&TaskQuery {
                limit: 9,
                ..TaskQuery::default()
            })
            .await
            .unwrap();
        store.gauges(&[]).await.unwrap();
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
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_without_its_setting_is_told_so() {
    let direct = shared_postgres().database();
    let pooler = tokio::task::block_in_place(|| PgBouncer::before(shared_postgres(), 1));
    let refused = PostgresStore::open(&pooler.url(&direct), options()).await;
    let why = refused.map(drop).expect_err("no session").to_string();
    assert!(
        why.contains("database_prepared_statements = false"),
        "{why}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_stores_share_the_sessions_of_a_pooler() {
    let direct = shared_postgres().database();
    let pooler = tokio::task::block_in_place(|| PgBouncer::before(shared_postgres(), 3));
    let url = pooler.url(&direct);
    let options = PostgresOptions {
        prepared_statements: false,
        ..options()
    };
    PostgresStore::migrate(&url, &options).await.unwrap();
    let stores = [open(&url, options.clone()).await, open(&url, options).await];
    // Far more at a time than there are sessions.
    join_all((0..24).map(|n| works(&stores[n % 2]))).await;
    let admin = raw(&direct).await;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert!(number(&admin, count).await <= 3);

    // Submissions in transactions of others, of which every second one is taken back.
    let submit = |n: usize| {
        let (store, url) = (stores[n % 2].clone(), url.clone());
        async move {
            let change = keyed(new_task(), &format!("order-{n}"));
            let connection = raw(&url).await;
            connection.batch_execute("BEGIN").await.unwrap();
            let written = execute(&connection, &statement(&store, &change)).await;
            assert_eq!(written.unwrap(), 1);
            let (end, expected) = [("COMMIT", true), ("ROLLBACK", false)][n % 2];
            connection.batch_execute(end).await.unwrap();
            let there = store.load(change.task_id).await.unwrap().is_some();
            assert_eq!(there, expected, "after {end}");
        }
    };
    join_all((0..12).map(submit)).await;

    // Tasks that are submitted with the change of their parent, and its wake.
    for store in &stores {
        let (parent, children) = family(store, 3).await;
        assert_eq!(children.len(), 3);
        assert!(store.wake(parent.task.id).await.unwrap().is_some());
        let counts = store.child_counts(parent.task.id).await.unwrap();
        assert_eq!(counts.iter().map(|count| count.tasks).sum::<u32>(), 3);
    }

    // Nothing of ours stays with a session that goes on to others.
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let session = raw(&url).await;
        session.batch_execute("BEGIN").await.unwrap();
        let left = session
            .simple_query(LEFT)
            .await
            .unwrap()
            .into_iter()
            .filter_map(|answer| match answer {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
        assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
        sessions.push(session);
    }
    drop((sessions, stores, pooler));
    alone(&admin).await;
}

#[tokio::test]
async fn a_publication_for_all_tables_stops_no_change() {
    let fixture = super::fixture().await;
    raw(&fixture.url)
        .await
        .batch_execute("CREATE PUBLICATION everything FOR ALL TABLES")
        .await
        .unwrap();
    works(&fixture.ports.store).await;
    let keyless = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
                   AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)";
    assert_eq!(number(&raw(&fixture.url).await, keyless).await, 0);
}
