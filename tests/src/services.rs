//! The services as a deployment starts them: all in one process, or one process each on the same
//! data.

use crate::api::Api;
use crate::place::Place;
use crate::process::Process;
use std::net::{SocketAddr, TcpListener};

/// Times that let a test wait for leases and sweeps.
pub const QUICK: &[&str] = &[
    "--lease",
    "2s",
    "--step-timeout",
    "3s",
    "--test-time",
    "cancel_grace=500ms",
    "--drain",
    "500ms",
];

/// A limit of uploads after which a test can wait for what broke off to be swept. Not where uploads
/// are large or many.
pub const QUICK_UPLOADS: &[&str] = &["--upload-timeout", "2s"];

/// How often a reconciler passes in tests.
pub const EVERY: &[&str] = &["--every", "1s"];

/// A process that serves the API, and its address.
#[derive(Debug)]
pub struct Served {
    /// The process.
    pub process: Process,
    /// Its API.
    pub api: Api,
}

/// `counterstep dev` on a free port.
#[must_use]
pub fn dev(place: &Place, flags: &[&str]) -> Served {
    dev_at(place, SocketAddr::from(([127, 0, 0, 1], 0)), flags)
}

/// `counterstep dev` at an address.
///
/// # Panics
/// When it does not start.
#[must_use]
pub fn dev_at(place: &Place, address: SocketAddr, flags: &[&str]) -> Served {
    let address = address.to_string();
    let mut process = Process::start(place, &[&["dev", "--listen", &address], flags].concat());
    let address = process.says("where to submit", |said| {
        after(said, "submit to http://", '/')
    });
    Served {
        process,
        api: Api::at(&address),
    }
}

/// `counterstep api` on a free port.
///
/// # Panics
/// When it does not start.
#[must_use]
pub fn api(place: &Place, flags: &[&str]) -> Served {
    let mut process = Process::start(
        place,
        &[&["api", "--listen", "127.0.0.1:0"], flags].concat(),
    );
    let address = process.says("its address", |said| after(said, "address=", '\n'));
    Served {
        process,
        api: Api::at(&address),
    }
}

/// `counterstep worker`; its id, as leases and audit entries name it, comes with it.
///
/// # Panics
/// When it does not start.
#[must_use]
pub fn worker(place: &Place, flags: &[&str]) -> (Process, String) {
    let mut process = Process::start(place, &[&["worker"], flags].concat());
    let id = process.says("its id", |said| after(said, "worker started worker=", ' '));
    (process, id)
}

/// `counterstep reconciler`, often.
#[must_use]
pub fn reconciler(place: &Place, flags: &[&str]) -> Process {
    let mut process = Process::start(place, &[&["reconciler"], EVERY, flags].concat());
    process.says("that it has started", |said| {
        said.contains("reconciler started").then_some(())
    });
    process
}

/// A port for a process that is to come back at the same address. Below those that the system hands
/// out by itself: while the process is down, no other process gets it by chance.
///
/// # Panics
/// When all are taken.
#[must_use]
pub fn free_port() -> u16 {
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap_or_default();
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (first..32_000).find(free).expect("a free port")
}

/// What follows `mark`, up to `end`, in the first line that has both.
pub fn after(said: &str, mark: &str, end: char) -> Option<String> {
    said.split_once(mark)?
        .1
        .split_once(end)
        .map(|(found, _)| found.trim().to_owned())
}
