//! PostgreSQL in a temporary folder. Its cluster is made once a process and copied from then on.

use super::place::Folder;
use super::process::{self, Account, Asked, Process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_postgres::SimpleQueryMessage;

pub(super) const PACKAGE: &str = "postgresql";

/// For tests: nothing waits for a disk. What a stopped or killed server has committed is still
/// there afterwards, since a commit is answered only once the machine has it, and the machine
/// itself keeps running.
pub(super) const FAST: &[(&str, &str)] = &[
    ("fsync", "off"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "off"),
    // Of thousands of connections each touches pages of the buffer and few statements: less of both to set up.
    ("shared_buffers", "32MB"),
    ("jit", "off"),
];
/// For benchmarks: what is committed has reached the disk.
const DURABLE: &[(&str, &str)] = &[
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("full_page_writes", "on"),
];
const COMMON: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    ("max_connections", "200"),
    ("shared_buffers", "128MB"),
    // Files in the folder: segments in shared memory would outlive a killed server.
    ("dynamic_shared_memory_type", "mmap"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
];

/// A private PostgreSQL: one superuser `postgres`, no password, loopback only.
#[derive(Debug)]
pub struct Postgres {
    pub(super) process: Process,
    port: u16,
    databases: AtomicU32,
    settings: Vec<(String, String)>,
}

impl Postgres {
    /// Starts one for tests, with `fsync` off.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::with_settings(FAST)
    }

    /// As `start`, and nothing is vacuumed but where a test says so: what `autovacuum` reads would count among the reads
    /// of a test, now and then.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    pub(super) fn of_many_tests() -> Self {
        let settings: Vec<_> = FAST
            .iter()
            .copied()
            .chain([("autovacuum", "off")])
            .collect();
        Self::with_settings(&settings)
    }

    /// Starts one for benchmarks: `fsync`, `synchronous_commit` and `full_page_writes` on.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start.
    #[must_use]
    pub fn durable() -> Self {
        Self::with_settings(DURABLE)
    }

    /// Starts one with further settings, by the names of `postgresql.conf`.
    ///
    /// # Panics
    /// When PostgreSQL is not installed or does not start with them.
    #[must_use]
    pub fn with_settings(settings: &[(&str, &str)]) -> Self {
        Self::prepared(settings, |_| Ok(()))
    }

    /// The same, and `prepare` does something to its files before it starts.
    pub(super) fn prepared(
        settings: &[(&str, &str)],
        prepare: impl Fn(&Self) -> Result<(), String>,
    ) -> Self {
        let settings: Vec<(String, String)> = COMMON
            .iter()
            .chain(settings)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Self::made_by(&settings, |made| {
            copy_cluster(made.folder())?;
            prepare(made)
        })
    }

    /// Starts one whose files `make` puts into its folder.
    fn made_by(settings: &[(String, String)], make: impl Fn(&Self) -> Result<(), String>) -> Self {
        Process::start("postgres", || {
            // At the end it is told to quit at once, not killed: killed, it would leave its segment
            // of shared memory.
            let server = Self {
                process: Process::new("postgres", Some(Asked::Quit)),
                port: process::free_port(),
                databases: AtomicU32::new(0),
                settings: settings.to_vec(),
            };
            make(&server)?;
            server.run().map(|()| server)
        })
    }

    /// One more with the same settings.
    pub(super) fn beside(&self, make: impl Fn(&Self) -> Result<(), String>) -> Self {
        Self::made_by(&self.settings, make)
    }

    fn run(&self) -> Result<(), String> {
        let folder = self.process.folder.path();
        let data = folder.join("data");
        let account = Account::unless_we_are_somebody();
        if let Some(account) = account {
            // For its socket and the lock beside it.
            account.owns(folder);
        }
        let mut command = process::command(&process::find("postgres", PACKAGE), account, "QUIT");
        command
            .arg("-D")
            .arg(&data)
            .arg("-p")
            .arg(self.port.to_string())
            .arg("-k")
            .arg(folder);
        for (name, value) in &self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let url = self.url();
        self.process.begin(command, |pid| {
            // Another process's server may sit on the port while ours is about to give up: its own
            // file tells.
            let own = std::fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
            let lines: Vec<&str> = own.lines().map(str::trim).collect();
            lines.first() == Some(&pid.to_string().as_str())
                && lines.get(7) == Some(&"ready")
                && sql(&url, "SELECT 1").is_ok()
        })
    }

    /// `postgres://postgres@127.0.0.1:PORT/postgres`, the database that every server has.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The URL of a database by its name: of one that came with a copy of another server's files, say.
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Makes an empty database and returns its URL.
    ///
    /// # Panics
    /// When the server does not make one, because it is stopped, say.
    #[must_use]
    pub fn database(&self) -> String {
        let name = format!("db{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let made = sql(
            &self.url(),
            &format!("CREATE DATABASE {name} TEMPLATE template0"),
        );
        made.unwrap_or_else(|error| panic!("no new database: {error}"));
        self.url_of(&name)
    }

    /// Runs statements without parameters as the superuser, in the database of the URL.
    ///
    /// # Errors
    /// What the server says, or that it does not answer.
    pub fn run_sql(&self, url: &str, statements: &str) -> Result<(), String> {
        sql(url, statements)
    }

    /// A database as statements that make it anew, in another one that is empty.
    ///
    /// # Errors
    /// What `pg_dump` says.
    ///
    /// # Panics
    /// When it is not installed.
    pub fn dump(&self, url: &str) -> Result<String, String> {
        let mut dump = Command::new(process::find("pg_dump", PACKAGE));
        dump.args(["--inserts", "--no-owner", "--no-privileges", url]);
        let dumped = dump.output().map_err(|error| error.to_string())?;
        if !dumped.status.success() {
            return Err(String::from_utf8_lossy(&dumped.stderr).into_owned());
        }
        // Without what only `psql` understands, and a parameter that older servers do not have.
        let text = String::from_utf8_lossy(&dumped.stdout);
        let foreign =
            |line: &&str| line.starts_with('\\') || line.starts_with("SET transaction_timeout");
        let lines: Vec<&str> = text.lines().filter(|line| !foreign(line)).collect();
        Ok(lines.join("\n"))
    }

    /// The folder of all its files.
    #[must_use]
    pub fn folder(&self) -> &std::path::Path {
        self.process.folder.path()
    }

    /// Port on the loopback address; it stays through a restart.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Process id of the server; `None` while it is stopped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// Stops it: connections are cut, transactions rolled back, everything committed is kept.
    pub fn stop(&self) {
        self.process.stop(Asked::Int);
    }

    /// Kills it without a warning; what was committed is recovered at the next start.
    pub fn crash(&self) {
        self.process.stop(Asked::Quit);
    }

    /// Kills its first process with `SIGKILL`; the others end when they notice.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Starts it again, on the same port with the same data.
    ///
    /// # Panics
    /// When it does not start, or runs already.
    pub fn begin(&self) {
        self.run()
            .unwrap_or_else(|error| panic!("PostgreSQL does not start again: {error}"));
    }

    /// Stops it and starts it again.
    ///
    /// # Panics
    /// When it does not start again.
    pub fn restart(&self) {
        self.stop();
        self.begin();
    }
}

/// Copies the cluster that this process has made at first, so that the second server starts in a
/// fraction of the time.
fn copy_cluster(folder: &Path) -> Result<(), String> {
    static TEMPLATE: LazyLock<Result<(Folder, PathBuf), String>> = LazyLock::new(make_cluster);
    let (_, template) = TEMPLATE.as_ref().map_err(Clone::clone)?;
    let mut copy = Command::new("cp");
    copy.args(["--archive", "--reflink=auto"])
        .arg(template)
        .arg(folder.join("data"));
    succeed(copy)
}

fn make_cluster() -> Result<(Folder, PathBuf), String> {
    let folder = Folder::make("cluster");
    let account = Account::unless_we_are_somebody();
    if let Some(account) = account {
        account.owns(folder.path());
    }
    let data = folder.path().join("data");
    let mut initdb = process::command(&process::find("initdb", PACKAGE), account, "KILL");
    initdb.current_dir(folder.path()).arg("--pgdata").arg(&data);
    initdb.args([
        "--auth=trust",
        "--username=postgres",
        "--encoding=UTF8",
        "--locale=C",
        "--no-sync",
    ]);
    succeed(initdb)?;
    Ok((folder, data))
}

pub(super) fn succeed(mut command: Command) -> Result<(), String> {
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let shown = format!("{command:?}");
    let output = process::spawn(command).and_then(std::process::Child::wait_with_output);
    let output = output.map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{shown} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    ))
}

/// Runs statements over a connection of their own.
pub(super) fn sql(url: &str, statements: &str) -> Result<(), String> {
    first_value(url, statements).map(drop)
}

/// The first value that a database answers with to statements without parameters. On a thread of its own, since the caller
/// may be inside a runtime.
///
/// # Errors
/// What the server says, or that it does not answer.
pub fn first_value(url: &str, statements: &str) -> Result<Option<String>, String> {
    let work = async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
        let talk = async {
            let answer = client.simple_query(statements).await;
            // The connection ends once its client is gone.
            drop(client);
            answer
        };
        let (answer, ended) = futures::join!(talk, connection);
        let first = answer?.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        ended.map(|()| first)
    };
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let runtime = runtime.map_err(|error| error.to_string())?;
            runtime
                .block_on(work)
                .map_err(|error: tokio_postgres::Error| match error.as_db_error() {
                    Some(error) => error.to_string(),
                    None => error.to_string(),
                })
        });
        asked
            .join()
            .unwrap_or_else(|_| Err("the connection's thread panicked".to_owned()))
    })
}
