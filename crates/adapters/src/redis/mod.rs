//! Redis: locks of tasks through RedLock (`rslock`), and the hints that processes give each other.
//!
//! Nothing in here is ever needed. Each call ends within a time limit; while a server is away,
//! calls end at once and say so, and a task of its own tries to reach it again. Redis may be
//! stopped, flushed or wiped at any time: the rows decide. Must not keep anything that a row does
//! not say better.

mod client;
mod doctor;
mod hints;
mod locks;
mod reconnecting;

use crate::client_certificate::ClientCertificate;
use crate::finding::Finding;
pub use client::OpenError;
pub use hints::RedisHints;
pub use locks::RedisLocks;

use futures::future::BoxFuture;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Which servers, and how long to wait for them.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://[user[:password]@]host[:port][/db]`, or `rediss://…` with TLS. A lock is held where
    /// most of the servers grant it, so give one, or an odd number of servers that do not replicate
    /// each other. The first also keeps the hints.
    pub urls: Vec<String>,
    /// Certificates (PEM) that a `rediss://` server is checked against, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// What proves us to a `rediss://` server that asks.
    pub certificate: Option<ClientCertificate>,
    /// A file with the password, which counts instead of one in the URLs.
    pub password_file: Option<PathBuf>,
    /// Whether to speak to another machine without TLS.
    pub allow_plaintext: bool,
    /// Starts every key: two installations may share a server, each with a prefix of its own.
    pub prefix: String,
    /// Time limit of a call.
    pub limit: Duration,
    /// Pause between two attempts to reach a server that is away.
    pub cool_down: Duration,
}

impl RedisOptions {
    /// One server, with the defaults: 100 ms for a call, 1 s between attempts to reach it.
    #[must_use]
    pub fn at(url: &str) -> Self {
        Self {
            urls: vec![url.to_owned()],
            ca_file: None,
            certificate: None,
            password_file: None,
            allow_plaintext: false,
            prefix: "counterstep".to_owned(),
            limit: Duration::from_millis(100),
            cool_down: Duration::from_secs(1),
        }
    }
}

impl fmt::Debug for RedisOptions {
    // Not the URLs: they may carry a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("servers", &self.urls.len())
            .field("prefix", &self.prefix)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// Both ports on the same servers.
#[derive(Debug, Clone)]
pub struct Redis {
    /// Locks of tasks.
    pub locks: Arc<RedisLocks>,
    /// Hints.
    pub hints: Arc<RedisHints>,
}

/// Opens both ports. A server that does not answer is no error: the ports then say so at each call,
/// and use it as soon as it is there. Call within a Tokio runtime that lives as long as the ports.
///
/// # Errors
/// [`OpenError`]: the settings are wrong, or would send secrets to another machine in the clear.
pub fn open(options: RedisOptions) -> BoxFuture<'static, Result<Redis, OpenError>> {
    Box::pin(async move {
        let servers: Arc<[::redis::Client]> = client::clients(&options)?.into();
        let prefix: Arc<str> = options.prefix.as_str().into();
        let pace = reconnecting::Pace {
            limit: options.limit,
            cool_down: options.cool_down,
        };
        let (locks, hints) = futures::join!(
            RedisLocks::open(servers.clone(), prefix.clone(), pace),
            RedisHints::open(servers[0].clone(), prefix, pace)
        );
        Ok(Redis {
            locks: Arc::new(locks),
            hints: Arc::new(hints),
        })
    })
}

/// What is wrong with the servers or their settings; empty: nothing that can be seen from here.
/// Writes nothing.
///
/// # Errors
/// [`OpenError`], as for [`open`].
pub fn findings(options: &RedisOptions) -> BoxFuture<'_, Result<Vec<Finding>, OpenError>> {
    Box::pin(async move { Ok(doctor::look(&client::clients(options)?).await) })
}
