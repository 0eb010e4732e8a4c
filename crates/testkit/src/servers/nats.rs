//! NATS with JetStream in a temporary folder.

use super::process::{self, Asked, Process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

/// A private NATS with JetStream and its monitoring port, no password, loopback only.
#[derive(Debug)]
pub struct Nats {
    process: Process,
    port: u16,
    monitor: u16,
    lines: String,
    jetstream: String,
    /// It is ready without the others of its cluster, and healthy with them.
    is_member: bool,
}

impl Nats {
    /// Starts one.
    ///
    /// # Panics
    /// When NATS is not installed or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::with("", "")
    }

    /// Starts one with further lines of its settings, such as `authorization { token: secret }`.
    ///
    /// # Panics
    /// When NATS is not installed or does not start with them.
    #[must_use]
    pub fn with_lines(lines: &str) -> Self {
        Self::with(lines, "")
    }

    /// Starts one with further lines of its `jetstream` block, such as `sync_interval: always`.
    ///
    /// # Panics
    /// When NATS is not installed or does not start with them.
    #[must_use]
    pub fn with_jetstream(lines: &str) -> Self {
        Self::with("", lines)
    }

    fn with(lines: &str, jetstream: &str) -> Self {
        Process::start("nats", || Self::try_start(lines, jetstream, false))
    }

    /// Starts one of a cluster, whose block is in the lines, and does not wait for the others.
    pub(super) fn member(lines: &str) -> Result<Self, String> {
        Self::try_start(lines, "", true)
    }

    fn try_start(lines: &str, jetstream: &str, is_member: bool) -> Result<Self, String> {
        let server = Self {
            process: Process::new("nats", None),
            port: process::free_port(),
            monitor: process::free_port(),
            lines: lines.to_owned(),
            jetstream: jetstream.to_owned(),
            is_member,
        };
        server.run().map(|()| server)
    }

    /// Names this server to those who ask it, so that another one on the same port is not taken for
    /// it.
    pub(super) fn name(&self) -> String {
        format!("counterstep-{}-{}", std::process::id(), self.port)
    }

    fn run(&self) -> Result<(), String> {
        let folder = self.process.folder.path();
        let (port, monitor, name) = (self.port, self.monitor, self.name());
        let store = self.store().display().to_string();
        let (lines, jetstream) = (&self.lines, &self.jetstream);
        let text = format!(
            "server_name: {name}\nlisten: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:{monitor}\"\n\
             jetstream {{\n  store_dir: {store:?}\n  max_memory_store: 256MB\n  max_file_store: 4GB\n  {jetstream}\n}}\n{lines}\n"
        );
        let file = folder.join("nats.conf");
        std::fs::write(&file, text)
            .map_err(|error| format!("its settings cannot be written: {error}"))?;
        let mut command = process::command(&program(), None, "KILL");
        command.arg("--config").arg(file);
        self.process.begin(command, |_| {
            // It greets with its name; that its streams are recovered, the monitoring port tells.
            self.greeting()
                .is_ok_and(|greeting| greeting.contains(&name))
                && (self.is_member || self.is_healthy())
        })
    }

    fn greeting(&self) -> std::io::Result<String> {
        let mut stream = connect(self.port)?;
        let mut greeting = vec![0; 4096];
        let read = stream.read(&mut greeting)?;
        greeting.truncate(read);
        Ok(String::from_utf8_lossy(&greeting).into_owned())
    }

    /// Whether it has all its streams, and agrees with the others of its cluster.
    pub(super) fn is_healthy(&self) -> bool {
        self.monitored("/healthz").is_ok()
    }

    /// What its monitoring port answers.
    pub(super) fn monitored(&self, path: &str) -> std::io::Result<String> {
        let mut stream = connect(self.monitor)?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let answer = answer.strip_prefix("HTTP/1.0 200");
        let body = answer.and_then(|answer| Some(answer.split_once("\r\n\r\n")?.1.to_owned()));
        body.ok_or_else(|| std::io::Error::other("another answer than 200"))
    }

    /// `nats://127.0.0.1:PORT`
    #[must_use]
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// `http://127.0.0.1:PORT`, where `/varz`, `/jsz` and `/healthz` answer.
    #[must_use]
    pub fn monitor_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.monitor)
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

    /// Stops it; streams and consumers are kept.
    pub fn stop(&self) {
        self.process.stop(Asked::Term);
    }

    /// Kills it without a warning.
    pub fn crash(&self) {
        self.process.kill();
    }

    /// Starts it again, on the same ports with the same streams.
    ///
    /// # Panics
    /// When it does not start, or runs already.
    pub fn begin(&self) {
        self.run()
            .unwrap_or_else(|error| panic!("NATS does not start again: {error}"));
    }

    /// Stops it and starts it again.
    ///
    /// # Panics
    /// When it does not start again.
    pub fn restart(&self) {
        self.stop();
        self.begin();
    }

    /// The folder of its streams.
    pub(super) fn store(&self) -> std::path::PathBuf {
        self.process.folder.path().join("store")
    }

    /// Lets it stand still.
    pub(super) fn pause(&self) {
        self.process.signal("STOP");
    }

    /// Lets it go on.
    pub(super) fn resume(&self) {
        self.process.signal("CONT");
    }

    /// Removes all streams, consumers and messages from the disk.
    ///
    /// # Panics
    /// When it runs: stop it first.
    pub fn wipe_store(&self) {
        assert!(
            self.pid().is_none(),
            "NATS runs: stop it before its store is wiped"
        );
        match std::fs::remove_dir_all(self.store()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                panic!("its store stays: {error}")
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// The server that `NATS_SERVER` names, else that of the machine.
fn program() -> PathBuf {
    let named = std::env::var_os("NATS_SERVER").map(PathBuf::from);
    named.unwrap_or_else(|| process::find("nats-server", "nats-server"))
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(stream)
}
