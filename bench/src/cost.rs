//! What a run cost: processor time by process, and transactions of the database.

use crate::failed::Failed;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Ticks of `/proc/PID/stat` in a second: the kernel's constant for user space on all architectures
/// that Rust's Linux targets have.
const TICKS: u64 = 100;

/// Processor time of named processes and of all their descendants.
#[derive(Debug, Clone, Default)]
pub(crate) struct Processors(BTreeMap<&'static str, u32>);

impl Processors {
    pub(crate) fn with(mut self, name: &'static str, pid: Option<u32>) -> Self {
        self.0.extend(pid.map(|pid| (name, pid)));
        self
    }

    /// Used so far, by name.
    pub(crate) fn used(&self) -> BTreeMap<&'static str, Duration> {
        let all = all_processes();
        let of = |root: u32| {
            let mut ticks = 0;
            let mut open = vec![root];
            while let Some(pid) = open.pop() {
                if let Some(process) = all.get(&pid) {
                    ticks += process.ticks;
                }
                open.extend(
                    all.iter()
                        .filter(|(_, process)| process.parent == pid)
                        .map(|(pid, _)| *pid),
                );
            }
            Duration::from_millis(ticks * 1000 / TICKS)
        };
        self.0.iter().map(|(name, pid)| (*name, of(*pid))).collect()
    }
}

struct Process {
    parent: u32,
    /// Its own and those of its children that have ended.
    ticks: u64,
}

fn all_processes() -> BTreeMap<u32, Process> {
    let Ok(folder) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    folder
        .filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The second field is the program's name in brackets, and may hold anything.
            let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
            let field = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
            let parent = u32::try_from(field(1)?).ok()?;
            Some((
                pid,
                Process {
                    parent,
                    ticks: (11..15).filter_map(field).sum(),
                },
            ))
        })
        .collect()
}

/// Used between two readings.
pub(crate) fn between(
    before: &BTreeMap<&'static str, Duration>,
    after: &BTreeMap<&'static str, Duration>,
) -> BTreeMap<&'static str, Duration> {
    let since = |name: &&'static str| before.get(*name).copied().unwrap_or_default();
    after
        .iter()
        .map(|(name, used)| (*name, used.saturating_sub(since(name))))
        .collect()
}

/// What the database counts itself.
pub(crate) struct Counters {
    client: tokio_postgres::Client,
}

/// A reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    transactions: i64,
    row_versions: i64,
    wal_bytes: i64,
}

/// What a task has cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spent {
    /// Transactions, those of reads too.
    pub(crate) transactions: f64,
    /// Changes of a task.
    pub(crate) changes: f64,
    /// Rows that were inserted, updated or deleted.
    pub(crate) row_versions: f64,
    /// Bytes of the write-ahead log.
    pub(crate) wal_bytes: f64,
}

impl Counters {
    pub(crate) async fn of(database: &str) -> Result<Self, Failed> {
        let connected = tokio_postgres::connect(database, tokio_postgres::NoTls).await;
        let (client, connection) = connected.map_err(Failed::of)?;
        tokio::spawn(connection);
        Ok(Self { client })
    }

    /// Of this database so far; the log is that of the whole server, which has no other work.
    pub(crate) async fn read(&self) -> Result<Reading, Failed> {
        let question = "SELECT xact_commit, tup_inserted + tup_updated + tup_deleted,
                (pg_current_wal_insert_lsn() - '0/0')::bigint
            FROM pg_stat_database WHERE datname = current_database()";
        let row = self
            .client
            .query_one(question, &[])
            .await
            .map_err(Failed::of)?;
        Ok(Reading {
            transactions: row.get(0),
            row_versions: row.get(1),
            wal_bytes: row.get(2),
        })
    }

    /// Since then, for each task that there is. The database learns what a connection has done when
    /// it ends, or within a moment.
    pub(crate) async fn since(&self, before: Reading) -> Result<Spent, Failed> {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let after = self.read().await?;
        let counted = "SELECT count(*), (SELECT count(*) FROM tasks) FROM journal";
        let row = self
            .client
            .query_one(counted, &[])
            .await
            .map_err(Failed::of)?;
        let (changes, tasks) = (row.get::<_, i64>(0) as f64, row.get::<_, i64>(1) as f64);
        Ok(Spent {
            transactions: (after.transactions - before.transactions) as f64 / tasks,
            changes: changes / tasks,
            row_versions: (after.row_versions - before.row_versions) as f64 / tasks,
            wal_bytes: (after.wal_bytes - before.wal_bytes) as f64 / tasks,
        })
    }
}
