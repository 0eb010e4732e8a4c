//! PgBouncer in transaction mode before a PostgreSQL: each transaction may get another session of
//! the server.

use super::Postgres;
use super::postgres::sql;
use super::process::{self, Account, Process};

/// A private PgBouncer before one PostgreSQL, without passwords, loopback only.
#[derive(Debug)]
pub struct PgBouncer {
    process: Process,
    port: u16,
    server: u16,
    lines: String,
}

impl PgBouncer {
    /// Starts one with at most `sessions` sessions of the server for each database and role.
    ///
    /// # Panics
    /// When PgBouncer is not installed or does not start.
    #[must_use]
    pub fn before(server: &Postgres, sessions: u32) -> Self {
        Process::start("pgbouncer", || {
            let lines = format!("default_pool_size = {sessions}");
            let process = Process::new("pgbouncer", None);
            let pooler = Self {
                process,
                port: process::free_port(),
                server: server.port(),
                lines,
            };
            pooler.run().map(|()| pooler)
        })
    }

    fn run(&self) -> Result<(), String> {
        let folder = self.process.folder.path();
        let wrong = |error: std::io::Error| format!("its settings cannot be written: {error}");
        let users = folder.join("users");
        std::fs::write(&users, "\"postgres\" \"\"\n\"counterstep_service\" \"\"\n")
            .map_err(wrong)?;
        let (port, server, lines, users) = (self.port, self.server, &self.lines, users.display());
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {users}\n\
             pool_mode = transaction\nmax_client_conn = 200\n{lines}\n"
        );
        let file = folder.join("pgbouncer.ini");
        std::fs::write(&file, text).map_err(wrong)?;
        let account = Account::unless_we_are_somebody();
        if let Some(account) = account {
            account.owns(folder);
        }
        let mut command =
            process::command(&process::find("pgbouncer", "pgbouncer"), account, "KILL");
        command.arg(file);
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        self.process
            .begin(command, |_| sql(&url, "SELECT 1").is_ok())
    }

    /// The URL of a database of the server, by way of this pooler.
    ///
    /// # Panics
    /// When the URL is not one of the server's.
    #[must_use]
    pub fn url(&self, direct: &str) -> String {
        let (ours, theirs) = (format!(":{}/", self.port), format!(":{}/", self.server));
        assert!(
            direct.contains(&theirs),
            "{direct} is not a database of the server behind this pooler"
        );
        direct.replace(&theirs, &ours)
    }
}
