//! Azurite, the emulator of Azure Blob Storage, in memory: a stop forgets everything.

use super::process::{self, Process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ACCOUNT: &str = "counterstep";
/// Base64 of a sentence that says what it is.
const KEY: &str =
    "Y291bnRlcnN0ZXAtdGVzdHM6IHRoZSBrZXkgb2YgYW4gZW11bGF0b3IsIHdoaWNoIGlzIG5vdCBhIHNlY3JldA==";
/// A signature of the account by that key, over the rights, the end and the version that stand
/// before it. It is written out because the request that makes a container is signed, and signing
/// takes libraries that nothing else here needs.
const SIGNATURE: &str = "sv=2020-08-04&ss=b&srt=sco&sp=rwdlac&se=2099-12-31T00:00:00Z&\
                         sig=rQXou0WbS4CWpqL5LuTD2BG0j6fVt6El2%2B0ECs%2Fg2hc%3D";
/// The container of [`Azurite::make_signed_container`], and a signature for it alone. Azurite takes
/// none of an account for the requests that delete several blobs; Azure does.
const SIGNED: (&str, &str) = (
    "signed",
    "sv=2020-08-04&sr=c&sp=racwdl&se=2099-12-31T00:00:00Z&sig=3V8tKRTGczqyhuN9oGcq8E28JU3rOudQXodYd84dhk0%3D",
);
/// Where `cargo xtask test` puts it, below the build's target folder.
const PROGRAM: &str = "tools/azurite/node_modules/azurite/dist/src/blob/main.js";

/// A private Azurite with one account, blobs only, loopback only.
#[derive(Debug)]
pub struct Azurite {
    process: Process,
    port: u16,
}

impl Azurite {
    /// Starts one.
    ///
    /// # Panics
    /// When Node.js or Azurite is not installed, or Azurite does not start.
    #[must_use]
    pub fn start() -> Self {
        Process::start("azurite", || {
            let server = Self {
                process: Process::new("azurite", None),
                port: process::free_port(),
            };
            server.run().map(|()| server)
        })
    }

    fn run(&self) -> Result<(), String> {
        let mut command = process::command(&process::find("node", "nodejs"), None, "KILL");
        command
            .arg(program())
            .args(["--blobHost", "127.0.0.1", "--blobPort"])
            .arg(self.port.to_string());
        command.args([
            "--inMemoryPersistence",
            "--extentMemoryLimit",
            "1024",
            "--silent",
        ]);
        // The client's version of the protocol may be newer than the emulator.
        command.args([
            "--skipApiVersionCheck",
            "--disableTelemetry",
            "--disableProductStyleUrl",
        ]);
        command.env("AZURITE_ACCOUNTS", format!("{ACCOUNT}:{KEY}"));
        // Another test's Azurite has the same account; what this one writes is its own.
        self.process.begin(command, |_| {
            std::fs::read_to_string(self.process.log())
                .is_ok_and(|log| log.contains("successfully listens"))
        })
    }

    /// Makes a container; one that is there stays as it is.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn make_container(&self, name: &str) {
        let made = self.put(&format!("/{ACCOUNT}/{name}?restype=container&{SIGNATURE}"));
        let status = made
            .as_ref()
            .map(|answer| answer.split(' ').nth(1).unwrap_or_default());
        assert!(
            matches!(status, Ok("201" | "409")),
            "the container `{name}` was not made: {made:?}"
        );
    }

    fn put(&self, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// `http://127.0.0.1:PORT/ACCOUNT`; containers are the next segment of the path.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}/{ACCOUNT}", self.port)
    }

    /// Name of the one account.
    #[must_use]
    pub const fn account(&self) -> &'static str {
        ACCOUNT
    }

    /// Key of the one account.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        KEY
    }

    /// Makes a container for which there is a shared access signature. Returns its name and the
    /// signature, which has every right that objects need.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn make_signed_container(&self) -> (&'static str, &'static str) {
        self.make_container(SIGNED.0);
        SIGNED
    }

    /// Stops it; everything in it is lost.
    pub fn stop(&self) {
        self.process.kill();
    }
}

/// The file that Node.js runs. Test programs lie below the target folder, wherever that is.
fn program() -> PathBuf {
    let own = std::env::current_exe().expect("a test program has a path");
    let found = own
        .ancestors()
        .map(|folder| folder.join(PROGRAM))
        .find(|file| Path::is_file(file));
    found.unwrap_or_else(|| {
        panic!("Azurite is not installed, and this test needs it: `cargo xtask test` installs it into target/tools")
    })
}
