//! Which connections serve which call: a list that people ask for takes none of those that the engine waits for, and
//! what the engine waits for never stands behind lists.

use super::each_read::{PAGE, Read, read, reads};
use super::{database, number, options, raw};
use crate::suite::changes::*;
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::{Epoch, Rev, Tenant};
use counterstep_kernel::ports::{
    DocumentChange, DocumentKind, DocumentQuery, DocumentWrite, EndedTask, JournalPage, Lane,
    LogRow, LogWrite, PurgeOp, ReceiveOp, Store,
};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A store's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pool {
    /// For the engine.
    Main,
    /// For people, however long it takes.
    Lists,
}
use Pool::{Lists, Main};

/// Each read of the port, by the beginning of its name.
const READS: &[(&str, Pool)] = &[
    ("load", Main),
    ("records", Main),
    ("history", Main),
    ("log", Main),
    ("flow", Lists),
    ("children", Main),
    ("child counts", Main),
    ("above", Main),
    ("places of a key", Main),
    ("places of tasks", Main),
    ("place counts", Lists),
    ("wake", Main),
    ("reserved until", Main),
    ("in flight", Lists),
    ("gauges", Lists),
    ("workers", Main),
    ("types", Main),
    ("key", Main),
    ("successors", Main),
    ("all, newest", Lists),
    ("schedules", Lists),
    ("schedules due", Main),
    ("failures", Main),
    ("failing tenants", Main),
    ("label names", Lists),
    ("label values", Lists),
    ("waiting", Main),
    ("lost", Main),
    ("claimable", Main),
    ("unclaimed", Main),
    ("tasks to sweep", Main),
    ("overdue receives", Main),
    ("receives", Main),
    ("relay", Main),
    ("published", Main),
    ("tombstones", Main),
    ("ended", Main),
    ("rows", Lists),
    ("heads", Lists),
    ("revisions", Lists),
    ("list of", Lists),
    ("list by label", Lists),
    ("search", Lists),
];

fn write(kind: DocumentKind, name: &str) -> DocumentWrite {
    DocumentWrite {
        kind,
        tenant: Tenant::default(),
        name: name.to_owned(),
        expected: None,
        change: DocumentChange::Put {
            body: "{}".to_owned(),
            due_at: None,
        },
    }
}

fn log_line() -> LogWrite {
    LogWrite {
        task: new_task(),
        tenant: Tenant::default(),
        row: LogRow {
            epoch: Epoch(1),
            no: 1,
            lines: 1,
            bytes: 2,
            dropped: 0,
            body: "[]".to_owned(),
        },
    }
}

fn ended() -> EndedTask {
    EndedTask {
        task: new_task(),
        tenant: Tenant::default(),
        rev: Rev(1),
    }
}

const KIND: DocumentKind = DocumentKind::Schedule;

fn page(kind: DocumentKind) -> DocumentQuery {
    DocumentQuery::Page {
        kind,
        tenant: Tenant::default(),
        after: None,
        limit: PAGE,
    }
}

/// The writes of the port, and the reads of documents in each form.
fn others() -> Vec<(&'static str, Pool, Read)> {
    vec![
        (
            "commit",
            Main,
            read!(store => async move { Ok::<_, ()>(submitted(&store, row(new_task())).await) }),
        ),
        (
            "commit_all",
            Main,
            read!(store => async move {
                let changes = [submit(row(new_task())), submit(row(new_task()))];
                let changes = changes.map(|change| Arc::new(whole(None, change)));
                store.commit_all(&changes).await
            }),
        ),
        (
            "heartbeat",
            Main,
            read!(store => store.heartbeat(new_task(), Epoch(1), MINUTE)),
        ),
        ("salvage", Main, read!(store => store.salvage(new_task()))),
        (
            "reserve",
            Main,
            read!(store => store.reserve(&[new_task()], MINUTE)),
        ),
        (
            "put of one",
            Main,
            read!(store => store.put(&[write(DocumentKind::Worker, "one")])),
        ),
        (
            "put of several",
            Main,
            read!(store => store.put(&[write(DocumentKind::Worker, "two"), write(DocumentKind::Audit, "three")])),
        ),
        (
            "write_log",
            Main,
            read!(store => store.write_log(&log_line())),
        ),
        (
            "sweeps put off",
            Main,
            read!(store => store.put_off(&[new_task()], MINUTE)),
        ),
        (
            "receives condemned",
            Main,
            read!(store => store.receives(&ReceiveOp::Condemn(vec![new_task()]))),
        ),
        (
            "receives swept",
            Main,
            read!(store => store.receives(&ReceiveOp::Swept(vec![new_task()]))),
        ),
        (
            "purge",
            Main,
            read!(store => store.purge(&PurgeOp::Purge(vec![ended()]))),
        ),
        (
            "forget",
            Main,
            read!(store => store.purge(&PurgeOp::Forget(vec![new_task()]))),
        ),
        (
            "rows of a journal, for the engine",
            Main,
            read!(store => store.journal(&JournalPage {
                task: Some(new_task().to_string()), after: None, limit: PAGE, lane: Lane::Engine,
            })),
        ),
        (
            "documents by name",
            Main,
            read!(store => store.documents(&DocumentQuery::Named {
                kind: KIND, tenant: Tenant::default(), names: vec!["one".to_owned()],
            })),
        ),
        (
            "documents, a page",
            Lists,
            read!(store => store.documents(&page(KIND))),
        ),
        (
            "documents, the paused queues",
            Main,
            read!(store => store.documents(&page(DocumentKind::Queue))),
        ),
        (
            "documents that are due",
            Main,
            read!(store => store.documents(&DocumentQuery::Due { kind: KIND, after: None, limit: PAGE })),
        ),
        (
            "documents of a tenant that are due",
            Main,
            read!(store => store.documents(&DocumentQuery::DueOf { kind: KIND, tenant: Tenant::default(), limit: PAGE })),
        ),
        (
            "documents, the latest",
            Main,
            read!(store => store.documents(&DocumentQuery::Latest { kind: KIND, limit: PAGE })),
        ),
    ]
}

/// The rows with the reads that they are of: the longest name that a read begins with.
fn table() -> Vec<(String, Pool, Read)> {
    let mut used = BTreeMap::new();
    let mut table = Vec::new();
    for (name, call) in reads() {
        let of_it = READS.iter().filter(|(row, _)| name.starts_with(row));
        let (row, pool) = of_it
            .max_by_key(|(row, _)| row.len())
            .unwrap_or_else(|| panic!("no row for the read `{name}`: say which pool serves it"));
        used.insert(*row, ());
        table.push((name, *pool, call));
    }
    let unused: Vec<_> = READS
        .iter()
        .filter(|(row, _)| !used.contains_key(row))
        .collect();
    assert!(unused.is_empty(), "rows of no read: {unused:?}");
    let others = others().into_iter();
    table.extend(others.map(|(name, pool, call)| (name.to_owned(), pool, call)));
    table
}

/// A store with one connection in each pool and without any open yet, so a call that is served by the other pool than a
/// load opens a second one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_call_is_served_by_the_pool_of_its_row() {
    let url = database().await;
    let raw = raw(&url).await;
    let mut others = Vec::new();
    for (no, (name, pool, call)) in table().into_iter().enumerate() {
        let application_name = format!("pool-of-{no}");
        let opened = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{application_name}'"
        );
        let options = PostgresOptions {
            connections: 2,
            application_name,
            ..options()
        };
        // `open` would check the schema over a connection of its own.
        let store = PostgresStore::look(&url, &options).expect("a store");
        let store = Store::from(store);
        store.load(new_task()).await.expect("an answer");
        call(store.clone()).await;
        let found = match number(&raw, &opened).await {
            1 => Main,
            2 => Lists,
            more => panic!("{name}: {more} connections"),
        };
        if found != pool {
            others.push(format!("{name}: {found:?}, and {pool:?} is its row"));
        }
    }
    assert!(others.is_empty(), "{others:#?}");
}
