//! What a run cost: processor time by process, and transactions of the database.

use crate::Failed;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Ticks of `/proc/PID/stat` in a second: the kernel's constant for user space on all architectures that Rust's Linux
/// targets have.
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
                open.extend(all.iter().filter(|(_, process)| process.parent == pid).map(|(pid, _)| *pid));
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
    let Ok(folder) = fs::read_dir("/proc") else { return BTreeMap::new() };
    folder
        .filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The second field is the program's name in brackets, and may hold anything.
            let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
            let field = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
            let parent = u32::try_from(field(1)?).ok()?;
            Some((pid, Process { parent, ticks: (11..15).filter_map(field).sum() }))
        })
        .collect()
}

/// Used between two readings.
pub(crate) fn between(
    before: &BTreeMap<&'static str, Duration>,
    after: &BTreeMap<&'static str, Duration>,
) -> BTreeMap<&'static str, Duration> {
    let since = |name: &&'static str| before.get(*name).copied().unwrap_or_default();
    after.iter().map(|(name, used)| (*name, used.saturating_sub(since(name)))).collect()
}

/// What the database counts itself.
pub(crate) struct Transactions {
    client: tokio_postgres::Client,
}

impl Transactions {
    pub(crate) async fn of(database: &str) -> Result<Self, Failed> {
        let connected = tokio_postgres::connect(database, tokio_postgres::NoTls).await;
        let (client, connection) = connected.map_err(Failed::of)?;
        tokio::spawn(connection);
        Ok(Self { client })
    }

    async fn number(&self, question: &str) -> Result<i64, Failed> {
        let row = self.client.query_one(question, &[]).await.map_err(Failed::of)?;
        Ok(row.get(0))
    }

    /// Committed so far in this database.
    pub(crate) async fn read(&self) -> Result<i64, Failed> {
        self.number("SELECT pg_stat_get_db_xact_commit(oid) FROM pg_database WHERE datname = current_database()").await
    }

    /// Transactions since then, changes of tasks, and tasks. The database learns what a connection has done when it
    /// ends, or within a moment.
    pub(crate) async fn since(&self, before: i64) -> Result<(f64, f64, f64), Failed> {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let changes = self.number("SELECT count(DISTINCT change_id) FROM audit").await?;
        let tasks = self.number("SELECT count(*) FROM tasks").await?;
        Ok(((self.read().await? - before) as f64, changes as f64, tasks as f64))
    }
}
