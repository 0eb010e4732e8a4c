//! Three NATS servers that are one cluster, each with a store of its own.

use super::nats::Nats;
use super::place::Folder;
use super::process::{self, Process};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a cluster may take to agree on its leaders: a loaded machine is slow.
const LIMIT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(20);

/// Three servers with JetStream, whose streams may have three copies.
#[derive(Debug)]
pub struct NatsCluster {
    servers: Vec<Nats>,
}

/// The stores of all servers of a cluster as they were at one moment.
#[derive(Debug)]
pub struct NatsStores(Folder);

impl NatsCluster {
    /// Starts the three, and waits until they have found each other.
    ///
    /// # Panics
    /// When NATS is not installed or a server does not start.
    #[must_use]
    pub fn start() -> Self {
        let cluster = Process::start("a NATS cluster", || {
            let routes = [(); 3].map(|()| process::free_port());
            let urls = routes.map(|port| format!("\"nats://127.0.0.1:{port}\""));
            let urls = urls.join(", ");
            let servers = routes.into_iter().map(|port| {
                let lines = format!(
                    "cluster {{\n  name: of-tests\n  listen: \"127.0.0.1:{port}\"\n  routes: [{urls}]\n}}"
                );
                Nats::member(&lines)
            });
            let servers = servers.collect::<Result<Vec<_>, String>>()?;
            Ok(Self { servers })
        });
        let agree = cluster.agree_within(LIMIT);
        assert!(agree, "the servers do not find each other");
        cluster
    }

    /// The servers.
    #[must_use]
    pub fn servers(&self) -> &[Nats] {
        &self.servers
    }

    /// The addresses of all, with commas between them.
    #[must_use]
    pub fn url(&self) -> String {
        let urls: Vec<_> = self.servers.iter().map(Nats::url).collect();
        urls.join(",")
    }

    /// Waits until all servers are up, and each has what the others have. Returns whether they came to that: after a loss
    /// of data, old servers may not by themselves.
    #[must_use]
    pub fn agree_within(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while !self.servers.iter().all(Nats::is_healthy) {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(POLL);
        }
        true
    }

    /// The server that leads a stream; `None`: none does at the moment, or there is no such stream.
    #[must_use]
    pub fn leader_of(&self, stream: &str) -> Option<usize> {
        let running = self.servers.iter().filter(|server| server.pid().is_some());
        let mut named = running.filter_map(|server| {
            let answer = server.monitored("/jsz?accounts=true&streams=true").ok()?;
            let answer: Value = serde_json::from_str(&answer).ok()?;
            let accounts = answer["account_details"].as_array()?.iter();
            let mut streams = accounts
                .filter_map(|account| account["stream_detail"].as_array())
                .flatten();
            let found = streams.find(|it| it["name"] == stream)?;
            Some(found["cluster"]["leader"].as_str()?.to_owned())
        });
        let leader = named.find(|name| !name.is_empty())?;
        self.servers.iter().position(|it| it.name() == leader)
    }

    /// Whether a server has a copy of a stream.
    #[must_use]
    pub fn has(&self, at: usize, stream: &str) -> bool {
        let answer = self.servers[at].monitored("/jsz?accounts=true&streams=true");
        let answer = answer.unwrap_or_default();
        answer.contains(&format!("\"name\": \"{stream}\""))
    }

    /// Copies the stores of all servers, which stand still meanwhile: a power cut leaves that to servers which had
    /// synced their files just then.
    ///
    /// # Panics
    /// When a server is not up, or the copy fails.
    #[must_use]
    pub fn copy_stores(&self) -> NatsStores {
        let copies = NatsStores(Folder::make("nats-stores"));
        self.servers.iter().for_each(|server| server.pause());
        for (at, server) in self.servers.iter().enumerate() {
            copy(&server.store(), &copies.of(at));
        }
        self.servers.iter().for_each(|server| server.resume());
        copies
    }

    /// Kills all servers, and starts them on stores of before.
    ///
    /// # Panics
    /// When one does not start again.
    pub fn put_back(&self, stores: &NatsStores) {
        self.servers.iter().for_each(Nats::crash);
        for (at, server) in self.servers.iter().enumerate() {
            server.wipe_store();
            copy(&stores.of(at), &server.store());
        }
        self.servers.iter().for_each(Nats::begin);
    }
}

impl NatsStores {
    fn of(&self, at: usize) -> std::path::PathBuf {
        self.0.path().join(at.to_string())
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    let copied = copied.is_ok_and(|status| status.success());
    assert!(copied, "{} is not copied", from.display());
}
