//! The PostgreSQL store: the suite, and what only this database can be asked.

mod access;
mod each_read;
mod label_cost;
mod limits;
mod lost_replies;
mod own_transactions;
mod plans;
mod pooler;
mod pools;
mod races;
mod reads;
mod replication;
mod requests;
mod schema;
mod slow;
mod statistics;
mod time;

use crate::embedded;
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::TaskId;
use counterstep_kernel::ports::{Ports, Store};
use counterstep_testkit::LossyQueue;
use counterstep_testkit::servers::shared_postgres;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio_postgres::{Client, NoTls};

/// A database of its own with the schema in it, and the embedded ports around its store.
pub(crate) struct Fixture {
    pub(crate) ports: Ports,
    pub(crate) url: String,
    _folder: TempDir,
}

/// Few connections each, since the tests of a binary run side by side on one server.
pub(crate) fn options() -> PostgresOptions {
    PostgresOptions {
        connections: 6,
        ..PostgresOptions::default()
    }
}

/// A database with the schema in it.
pub(crate) async fn database() -> String {
    static MIGRATED: OnceCell<String> = OnceCell::const_new();
    copy(MIGRATED.get_or_init(migrated).await).await
}

async fn migrated() -> String {
    let url = shared_postgres().database();
    let done = PostgresStore::migrate(&url, &options()).await;
    done.expect("a schema");
    url
}

/// A database with all that the one at this URL has: a copy costs what an empty database does, so that a schema is made once for many
/// tests.
pub(crate) async fn copy(url: &str) -> String {
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let (server, number) = (shared_postgres(), COPIES.fetch_add(1, Ordering::Relaxed));
    let (_, template) = url.rsplit_once('/').expect("the URL of a database");
    let made = format!("CREATE DATABASE copy{number} TEMPLATE {template}");
    // Not on the thread of the runtime, which has the connection of the migration to close: the server waits for that.
    let made = tokio::task::spawn_blocking(move || server.run_sql(&server.url(), &made));
    made.await.expect("it ends").expect("a database");
    server.url_of(&format!("copy{number}"))
}

pub(crate) async fn open(url: &str, options: PostgresOptions) -> Store {
    PostgresStore::open(url, options)
        .await
        .expect("a store")
        .into()
}

pub(crate) async fn fixture() -> Fixture {
    let url = database().await;
    let store = open(&url, options()).await;
    let embedded = embedded::fixture().await;
    let ports = Ports {
        store,
        queue: Arc::<LossyQueue>::default(),
        ..embedded.ports
    };
    Fixture {
        ports,
        url,
        _folder: embedded.folder,
    }
}

crate::store_cases!(crate::postgres::fixture);

/// A connection beside the store's, as the superuser.
pub(crate) async fn raw(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .expect("a connection");
    tokio::spawn(connection);
    client
}

pub(crate) async fn number(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.expect("a number").get(0)
}

/// Locks the row of a task until the connection is told otherwise.
async fn lock(client: &Client, task: TaskId) {
    client.batch_execute("BEGIN").await.expect("a transaction");
    hold(client, task).await;
}

/// Locks the row of a task in the transaction that is open.
async fn hold(client: &Client, task: TaskId) {
    let lock = format!("SELECT 1 FROM tasks WHERE id = '{task}' FOR UPDATE");
    client.batch_execute(&lock).await.expect("a lock");
}

/// The process of the server that waits for a lock in this database, for longer than a change does
/// beside others: it waits apart by now.
async fn waiting(client: &Client) -> i32 {
    crate::suite::eventually("a statement that waits for the lock", || async {
        let query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
             AND clock_timestamp() - query_start > interval '200 milliseconds' LIMIT 1";
        // Within a transaction the server shows the activity of its first look again and again.
        client.batch_execute("SELECT pg_stat_clear_snapshot()").await.expect("a new look");
        client.query_opt(query, &[]).await.expect("an answer").map(|row| row.get(0))
    })
    .await
}
