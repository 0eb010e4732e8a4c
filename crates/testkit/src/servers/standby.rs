//! Two PostgreSQL servers that change places: one is copied and follows the other, is promoted, and the old one made to follow
//! it. Must not decide which of them a client reaches: that is the proxy's.

use super::Postgres;
use super::postgres::{FAST, PACKAGE, first_value, sql, succeed};
use super::process::{self, Account};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// So that a server that was left behind can follow again: what differs is known by the log of writes, and enough of it is kept. In
/// its file, since the tool that rewinds starts it, too.
const TO_REWIND: &str = "wal_log_hints = on\nwal_keep_size = 1GB\n";

impl Postgres {
    /// Starts one for tests that a standby may follow.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    #[must_use]
    pub fn primary() -> Self {
        // Pages are copied from it while it writes to them.
        let settings = [FAST, &[("full_page_writes", "on")]].concat();
        Self::prepared(&settings, |made| made.add_settings(TO_REWIND))
    }

    /// Starts a standby of this server under a name, which reaches it at `port`: its own, or that of a proxy. Commits do not wait
    /// for it; see [`commits_wait_for`](Self::commits_wait_for).
    ///
    /// # Panics
    /// When it cannot be made or does not start.
    #[must_use]
    pub fn standby(&self, name: &str, port: u16) -> Self {
        let standby = self.beside(|made| {
            let mut copy = made.tool("pg_basebackup");
            copy.arg("--pgdata")
                .arg(made.data())
                .args(["--checkpoint=fast", "--no-sync", "--dbname"])
                .arg(conninfo(name, self.port()));
            succeed(copy)?;
            made.follow(self, name, port)
        });
        self.until(
            &format!(
                "SELECT 1 FROM pg_stat_replication WHERE application_name = '{name}' AND state = 'streaming'"
            ),
        );
        standby
    }

    /// Commits of this server wait for the standby of this name from now on; `None`: for none.
    ///
    /// # Panics
    /// When the server does not answer, or has no such standby.
    pub fn commits_wait_for(&self, name: Option<&str>) {
        let names = name.unwrap_or_default();
        let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        for statement in [&*set, "SELECT pg_reload_conf()"] {
            sql(&self.url(), statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        if let Some(name) = name {
            self.until(&format!(
                "SELECT 1 FROM pg_stat_replication WHERE application_name = '{name}' AND sync_state = 'sync'"
            ));
        }
    }

    /// Makes a standby a server that writes.
    ///
    /// # Panics
    /// When it is none, or does not answer.
    pub fn promote(&self) {
        let promoted = first_value(&self.url(), "SELECT pg_promote(TRUE, 60)::text");
        assert_eq!(promoted, Ok(Some("true".to_owned())), "not promoted");
    }

    /// Takes back what this server has written and `primary`, which was promoted, has not, and starts it as its standby,
    /// as [`standby`](Self::standby) does.
    ///
    /// # Panics
    /// When that cannot be done, or it runs.
    pub fn rewind(&self, primary: &Self, name: &str, port: u16) {
        // The new history of the primary is in its control file from its first checkpoint on.
        let checkpoint = sql(&primary.url(), "CHECKPOINT");
        checkpoint.unwrap_or_else(|error| panic!("no checkpoint: {error}"));
        let rewind = || {
            let mut rewind = self.tool("pg_rewind");
            rewind.arg("--target-pgdata").arg(self.data());
            rewind.args(["--no-sync", "--source-server"]);
            rewind.arg(format!(
                "{} dbname=postgres",
                conninfo(name, primary.port())
            ));
            succeed(rewind)
        };
        // Processes of one that was killed may still be there for a moment.
        let until = Instant::now() + LIMIT;
        let mut followed = rewind();
        while followed.is_err() && Instant::now() < until {
            std::thread::sleep(PAUSE);
            followed = rewind();
        }
        let followed = followed.and_then(|()| self.follow(primary, name, port));
        followed.unwrap_or_else(|error| panic!("it does not follow: {error}"));
        self.begin();
    }

    /// Its next start is that of a standby. The slot keeps what it has not got yet.
    fn follow(&self, primary: &Self, name: &str, port: u16) -> Result<(), String> {
        let slot = format!(
            "SELECT pg_create_physical_replication_slot('{name}', TRUE)
             WHERE NOT EXISTS (SELECT 1 FROM pg_replication_slots WHERE slot_name = '{name}')"
        );
        sql(&primary.url(), &slot)?;
        let lines = format!(
            "primary_conninfo = '{}'\nprimary_slot_name = '{name}'\nsynchronous_standby_names = ''\n",
            conninfo(name, port)
        );
        self.add_settings(&lines)?;
        let made = std::fs::write(self.data().join("standby.signal"), "");
        made.map_err(|error| format!("no mark of a standby: {error}"))
    }

    fn add_settings(&self, lines: &str) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("its settings cannot be written: {error}");
        let file = self.data().join("postgresql.auto.conf");
        let before = std::fs::read_to_string(&file).map_err(wrong)?;
        std::fs::write(&file, before + lines).map_err(wrong)
    }

    fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    fn tool(&self, name: &str) -> Command {
        let account = Account::unless_we_are_somebody();
        if let Some(account) = account {
            account.owns(self.folder());
        }
        let mut tool = process::command(&process::find(name, PACKAGE), account, "KILL");
        tool.current_dir(self.folder());
        tool
    }

    /// Waits until a query has a row.
    fn until(&self, query: &str) {
        let until = Instant::now() + LIMIT;
        while !matches!(first_value(&self.url(), query), Ok(Some(_))) {
            assert!(Instant::now() < until, "not within {LIMIT:?}: {query}");
            std::thread::sleep(PAUSE);
        }
    }
}

/// How a standby of this name reaches a server.
fn conninfo(name: &str, port: u16) -> String {
    format!("host=127.0.0.1 port={port} user=postgres application_name={name}")
}
