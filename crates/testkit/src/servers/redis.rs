//! Redis in a temporary folder: nothing is written to disk, so a restart forgets everything.

use super::process::{self, Process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// A private Redis without a password, loopback only.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: u16,
}

impl Redis {
    /// Starts one.
    ///
    /// # Panics
    /// When Redis is not installed or does not start.
    #[must_use]
    pub fn start() -> Self {
        Process::start("redis", || {
            let server = Self {
                process: Process::new("redis", None),
                port: process::free_port(),
            };
            server.run().map(|()| server)
        })
    }

    fn run(&self) -> Result<(), String> {
        let mut command =
            process::command(&process::find("redis-server", "redis-server"), None, "KILL");
        command.arg("--port").arg(self.port.to_string()).args([
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ]);
        command
            .args(["--appendonly", "no", "--daemonize", "no"])
            .arg("--dir")
            .arg(self.process.folder.path());
        self.process.begin(command, |pid| {
            self.ask("INFO server").is_ok_and(|answer| {
                answer
                    .lines()
                    .any(|line| line == format!("process_id:{pid}"))
            })
        })
    }

    /// `redis://127.0.0.1:PORT`
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
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

    /// Writes each command that it gets from now on to a file, until it stops.
    ///
    /// # Panics
    /// When it does not answer, or the file cannot be written.
    pub fn record(&self, path: &Path) {
        let mut file = std::fs::File::create(path).expect("a file");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("Redis answers");
        stream.write_all(b"MONITOR\r\n").expect("Redis answers");
        let mut begin = [0; 5];
        stream.read_exact(&mut begin).expect("Redis answers");
        assert_eq!(&begin, b"+OK\r\n");
        std::thread::spawn(move || std::io::copy(&mut stream, &mut file));
    }

    /// How many keys it holds.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    pub fn keys(&self) -> u64 {
        let answer = self.ask("DBSIZE");
        let count = answer
            .as_ref()
            .ok()
            .and_then(|answer| answer.lines().next()?.strip_prefix(':')?.parse().ok());
        count.unwrap_or_else(|| panic!("Redis does not say how many keys it holds: {answer:?}"))
    }

    /// Removes every key.
    ///
    /// # Panics
    /// When it does not answer.
    pub fn flush(&self) {
        let answer = self.ask("FLUSHALL");
        assert!(
            answer
                .as_ref()
                .is_ok_and(|answer| answer.starts_with("+OK")),
            "Redis was not flushed: {answer:?}"
        );
    }

    /// Stops it; all keys are lost.
    pub fn stop(&self) {
        self.process.kill();
    }

    /// Starts it again, empty, on the same port.
    ///
    /// # Panics
    /// When it does not start, or runs already.
    pub fn begin(&self) {
        self.run()
            .unwrap_or_else(|error| panic!("Redis does not start again: {error}"));
    }

    /// Stops it and starts it again.
    ///
    /// # Panics
    /// When it does not start again.
    pub fn restart(&self) {
        self.stop();
        self.begin();
    }

    /// One command as a line, as a person types it, and the answer up to the end of the connection.
    fn ask(&self, command: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}
