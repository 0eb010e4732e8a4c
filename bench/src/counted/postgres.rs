//! An API and a worker on PostgreSQL and NATS, each with connections of its own, and what they ask
//! of both.

use super::golden::{About, Costs, Counters, shown, tally};
use super::roles::{Roles, StillClock};
use super::wal::Log;
use super::work_messages::{Messages, PROGRESS};
use counterstep_adapters::folder::{FolderObjects, FolderScratch};
use counterstep_adapters::local::{LocalHints, LocalLocks};
use counterstep_adapters::nats::NatsOptions;
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_adapters::system::SystemRandom;
use counterstep_kernel::ports::{Clock, InTheTurn, NoServices, Ports};
use counterstep_testkit::servers::{Nats, Postgres, Proxy};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// The log has what the tasks write and no more: no whole pages, and no vacuum but the test's.
const SETTINGS: &[(&str, &str)] = &[
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("autovacuum", "off"),
    ("checkpoint_timeout", "1d"),
];

pub(super) struct Servers {
    proxy: Proxy,
    log: Log,
    messages: Messages,
    begin: String,
    // In this order: the proxy, then what it leads to.
    _postgres: Postgres,
    _nats: Nats,
    _folder: TempDir,
}

pub(super) async fn start() -> (Roles, Servers) {
    counterstep_node::install_provider();
    let (postgres, nats) = (Postgres::with_settings(SETTINGS), Nats::start());
    let direct = postgres.database();
    PostgresStore::migrate(&direct, &PostgresOptions::default())
        .await
        .expect("a schema");
    let proxy = Proxy::to(postgres.port());
    let messages = Messages::hear(&nats.url()).await;
    let folder = tempfile::tempdir().expect("a folder");
    let clock = StillClock::default();
    let ports = async || ports(&proxy.url(&direct), &nats.url(), folder.path(), &clock).await;
    let roles = Roles::start(ports().await, ports().await, clock.clone()).await;
    let servers = Servers {
        proxy,
        log: Log::open(&direct).await,
        messages,
        begin: String::new(),
        _postgres: postgres,
        _nats: nats,
        _folder: folder,
    };
    (roles, servers)
}

async fn ports(database: &str, nats: &str, folder: &Path, clock: &StillClock) -> Ports {
    let store = PostgresStore::open(database, PostgresOptions::default()).await;
    let nats = counterstep_adapters::nats::Nats::open(NatsOptions::new(nats))
        .await
        .expect("NATS");
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    Ports {
        store: store.expect("a store").into(),
        queue: Arc::new(nats.queue()),
        objects: Arc::new(FolderObjects::open(&folder.join("objects")).expect("a folder")),
        scratch: Arc::new(FolderScratch::open(&folder.join("scratch")).expect("a folder")),
        locks: Arc::new(LocalLocks::with_clock(&clock)),
        hints: Arc::new(LocalHints::with_clock(&clock)),
        signals: Arc::new(nats.signals()),
        services: Arc::new(NoServices),
        steps: Arc::new(InTheTurn),
        clock,
        random: Arc::new(SystemRandom),
    }
}

impl Counters for Servers {
    async fn begin(&mut self) {
        drop(self.messages.take().await);
        drop(self.proxy.take_statements());
        self.begin = self.log.begin().await;
    }

    async fn end(&mut self) -> Costs {
        let statements = self.proxy.take_statements();
        let written = self.log.since(&self.begin).await;
        let mut messages = self.messages.take().await;
        // Whether a step that ends at once has told how far it is depends on who is polled first.
        let told = messages.remove(PROGRESS).unwrap_or_default();
        assert!(told <= 1, "{told} messages of the progress of one step");
        Costs {
            exact: vec![
                (
                    "statements",
                    tally(statements.iter().map(|text| shown(text))),
                ),
                ("row versions", written.row_versions),
                ("index entries", written.index_entries),
                ("messages over NATS", messages),
            ],
            about: vec![About {
                kind: "bytes of the write-ahead log",
                within: 3,
                figure: written.bytes,
            }],
        }
    }
}
