//! A connection that may be away. While it is up, each call has a time limit. The first call that
//! fails takes it down: from then on calls end at once, and one task in the background tries to
//! reach the server again.
//!
//! So a dead server costs its limit once, and not each task. It is said in the log once when it
//! goes and once when it is back.

use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

/// To connect takes longer than a call: names, TLS, passwords. Only the background task and `open`
/// wait for it.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// How long a call may take, and how long to leave a server alone that is away.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) limit: Duration,
    pub(super) cool_down: Duration,
}

type Connect<L> = Box<dyn Fn() -> BoxFuture<'static, Result<L, String>> + Send + Sync>;

/// A connection to the servers of one port.
pub(super) struct Reconnecting<L> {
    inner: Arc<Inner<L>>,
}

struct Inner<L> {
    what: &'static str,
    connect: Connect<L>,
    pace: Pace,
    /// Connections are made here, and not on whatever runtime a call comes from: it may end
    /// earlier.
    runtime: Handle,
    state: Mutex<ConnectionState<L>>,
}

enum ConnectionState<L> {
    Up {
        link: L,
        since: Instant,
        number: u64,
    },
    Down {
        last: u64,
        why: String,
    },
}

impl<L> fmt::Debug for Reconnecting<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reconnecting")
            .field("what", &self.inner.what)
            .field("up", &self.inner.is_up())
            .finish()
    }
}

impl<L: Clone + Send + 'static> Reconnecting<L> {
    /// Tries to connect, and goes on trying in the background where that fails. `what` it is for is
    /// said in the log.
    pub(super) async fn open(what: &'static str, pace: Pace, connect: Connect<L>) -> Self {
        let state = Mutex::new(ConnectionState::Down {
            last: 0,
            why: "not connected yet".to_owned(),
        });
        let inner = Arc::new(Inner {
            what,
            connect,
            pace,
            runtime: Handle::current(),
            state,
        });
        match inner.reach().await {
            Ok(link) => inner.up(link),
            Err(why) => {
                tracing::warn!(%why, "Redis cannot be reached for {what}: going on without");
                *inner.open() = ConnectionState::Down { last: 0, why };
                inner.revive(pace.cool_down);
            }
        }
        Self { inner }
    }

    /// Asks within the time limit. An error takes the connection down: answers that say no are no
    /// errors.
    ///
    /// # Errors
    /// As text.
    pub(super) async fn call<R, F>(&self, ask: impl FnOnce(L) -> F) -> Result<R, String>
    where
        F: Future<Output = Result<R, String>>,
    {
        let (link, number) = match &*self.inner.open() {
            ConnectionState::Up { link, number, .. } => (link.clone(), *number),
            ConnectionState::Down { why, .. } => return Err(format!("it is away: {why}")),
        };
        let limit = self.inner.pace.limit;
        let why = match timeout(limit, ask(link)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(why)) => why,
            Err(_) => format!("no answer within {} ms", limit.as_millis()),
        };
        self.inner.lost(number, &why);
        Err(why)
    }

    /// Where connections live: for what must go on after its call has ended.
    pub(super) fn runtime(&self) -> &Handle {
        &self.inner.runtime
    }
}

impl<L> Inner<L> {
    fn open(&self) -> MutexGuard<'_, ConnectionState<L>> {
        self.state.lock()
    }

    fn is_up(&self) -> bool {
        matches!(*self.open(), ConnectionState::Up { .. })
    }
}

impl<L: Clone + Send + 'static> Inner<L> {
    async fn reach(&self) -> Result<L, String> {
        let limit = format!("no connection within {} s", CONNECT_LIMIT.as_secs());
        timeout(CONNECT_LIMIT, (self.connect)())
            .await
            .unwrap_or(Err(limit))
    }

    fn up(&self, link: L) {
        let mut state = self.open();
        let last = match &*state {
            ConnectionState::Up { number, .. } => *number,
            ConnectionState::Down { last, .. } => *last,
        };
        *state = ConnectionState::Up {
            link,
            since: Instant::now(),
            number: last + 1,
        };
    }

    /// The connection of that number has failed. Of many calls that fail together, the first one
    /// counts.
    fn lost(self: &Arc<Self>, failed: u64, why: &str) {
        let mut state = self.open();
        let ConnectionState::Up { since, number, .. } = &*state else {
            return;
        };
        if *number != failed {
            return;
        }
        // One that stood may only have been cut. One that has just been made is left alone for a
        // while.
        let pause = if since.elapsed() > self.pace.cool_down {
            Duration::ZERO
        } else {
            self.pace.cool_down
        };
        *state = ConnectionState::Down {
            last: failed,
            why: why.to_owned(),
        };
        drop(state);
        tracing::warn!(%why, "Redis does not answer for {}: going on without", self.what);
        self.revive(pause);
    }

    fn revive(self: &Arc<Self>, pause: Duration) {
        let (inner, mut pause) = (Arc::downgrade(self), pause);
        self.runtime.spawn(async move {
            loop {
                sleep(pause).await;
                let Some(inner) = Weak::upgrade(&inner) else {
                    return;
                };
                match inner.reach().await {
                    Ok(link) => {
                        inner.up(link);
                        tracing::info!("Redis answers again for {}", inner.what);
                        return;
                    }
                    Err(why) => tracing::debug!(%why, "Redis is still away"),
                }
                pause = inner.pace.cool_down;
            }
        });
    }
}
