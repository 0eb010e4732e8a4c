//! NATS with JetStream in a temporary folder.

use super::process::{self, Asked, Process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A private NATS with JetStream and its monitoring port, no password, loopback only.
#[derive(Debug)]
pub struct Nats {
    process: Process,
    port: u16,
    monitor: u16,
    lines: String,
    jetstream: String,
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
        Process::start("nats", || {
            let (port, monitor) = (process::free_port(), process::free_port());
            let (lines, jetstream) = (lines.to_owned(), jetstream.to_owned());
            let server = Self {
                process: Process::new("nats", None),
                port,
                monitor,
                lines,
                jetstream,
            };
            server.run().map(|()| server)
        })
    }

    /// Names this server to those who ask it, so that another one on the same port is not taken for
    /// it.
    fn name(&self) -> String {
        format!("counterstep-{}-{}", std::process::id(), self.port)
    }

    fn run(&self) -> Result<(), String> {
        let folder = self.process.folder.path();
        let (port, monitor, name) = (self.port, self.monitor, self.name());
        let store = folder.join("store").display().to_string();
        let (lines, jetstream) = (&self.lines, &self.jetstream);
        let text = format!(
            "server_name: {name}\nlisten: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:{monitor}\"\n\
             jetstream {{\n  store_dir: {store:?}\n  max_memory_store: 256MB\n  max_file_store: 4GB\n  {jetstream}\n}}\n{lines}\n"
        );
        let file = folder.join("nats.conf");
        std::fs::write(&file, text)
            .map_err(|error| format!("its settings cannot be written: {error}"))?;
        let mut command =
            process::command(&process::find("nats-server", "nats-server"), None, "KILL");
        command.arg("--config").arg(file);
        self.process.begin(command, |_| {
            // It greets with its name; that its streams are recovered, the monitoring port tells.
            self.greeting()
                .is_ok_and(|greeting| greeting.contains(&name))
                && self
                    .healthy()
                    .is_ok_and(|answer| answer.starts_with("HTTP/1.0 200"))
        })
    }

    fn greeting(&self) -> std::io::Result<String> {
        let mut stream = connect(self.port)?;
        let mut greeting = vec![0; 4096];
        let read = stream.read(&mut greeting)?;
        greeting.truncate(read);
        Ok(String::from_utf8_lossy(&greeting).into_owned())
    }

    fn healthy(&self) -> std::io::Result<String> {
        let mut stream = connect(self.monitor)?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
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

    /// Removes all streams, consumers and messages from the disk.
    ///
    /// # Panics
    /// When it runs: stop it first.
    pub fn wipe_store(&self) {
        assert!(
            self.pid().is_none(),
            "NATS runs: stop it before its store is wiped"
        );
        match std::fs::remove_dir_all(self.process.folder.path().join("store")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                panic!("its store stays: {error}")
            }
            Ok(()) | Err(_) => {}
        }
    }
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(stream)
}
