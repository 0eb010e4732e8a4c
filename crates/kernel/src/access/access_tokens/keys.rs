//! The keys of the issuer, as they were read last. They are read again in the background, and for a token
//! whose key is not among them, but not more often than the issuer should be asked. Must not know where they
//! come from.

use super::{Algorithm, KeySource, PublicKey, TokenError, TokenFault};
use crate::cancel::CancelToken;
use crate::ports::Clock;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

/// How long keys are used before they are read again.
const REFRESH: Duration = Duration::from_secs(5 * 60);

/// Minimum time between two reads where the source did not answer or a token has an unknown key: tokens with
/// made-up keys cause no more traffic than this.
const GAP: Duration = Duration::from_secs(10);

/// How long keys stay in use when they cannot be read again.
const LONGEST_USE: Duration = Duration::from_secs(4 * 3600);

/// Whether tokens can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeysState {
    /// The last read was answered.
    Current,
    /// It was not, and older keys count.
    Stale,
    /// There are no usable keys.
    Missing,
}

/// The keys that were read.
#[derive(Debug)]
pub(super) struct KeyCache {
    source: Arc<dyn KeySource>,
    clock: Arc<dyn Clock>,
    known: Mutex<KnownKeys>,
}

/// A read of the keys, shared by all callers: where the caller that began it goes away, the next one
/// continues it.
type Reading = Shared<BoxFuture<'static, Result<Arc<[PublicKey]>, Arc<str>>>>;

/// Times are of the process's clock.
#[derive(Debug, Default)]
struct KnownKeys {
    keys: Arc<[PublicKey]>,
    read_at: Option<Duration>,
    tried_at: Option<Duration>,
    has_failed: bool,
    /// One at a time.
    reading: Option<Reading>,
}

impl KeyCache {
    pub(super) fn new(source: Arc<dyn KeySource>, clock: Arc<dyn Clock>) -> Self {
        Self {
            source,
            clock,
            known: Mutex::default(),
        }
    }

    /// The key that signs tokens with this `kid` and algorithm.
    pub(super) async fn find(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<PublicKey, TokenError> {
        if let Some(found) = self.usable().and_then(|keys| one(&keys, kid, algorithm)) {
            return Ok(found);
        }
        self.read(GAP).await;
        let keys = self.usable().ok_or(TokenError::NoKeys)?;
        one(&keys, kid, algorithm).ok_or_else(|| TokenFault::UnknownKey.into())
    }

    pub(super) fn state(&self) -> KeysState {
        match (self.usable(), self.lock().has_failed) {
            (None, _) => KeysState::Missing,
            (Some(_), true) => KeysState::Stale,
            (Some(_), false) => KeysState::Current,
        }
    }

    /// Reads the keys at once, and then again and again until `shutdown`.
    pub(super) async fn keep(&self, shutdown: &CancelToken) {
        let reading = async {
            loop {
                self.read(Duration::ZERO).await;
                let wait = if self.lock().has_failed { GAP } else { REFRESH };
                self.clock.sleep(wait).await;
            }
        };
        tokio::select! {
            biased;
            _ = shutdown.cancelled() => {}
            () = reading => {}
        }
    }

    fn usable(&self) -> Option<Arc<[PublicKey]>> {
        let (known, now) = (self.lock(), self.clock.monotonic());
        let is_usable = |at: Duration| now.saturating_sub(at) < LONGEST_USE;
        known
            .read_at
            .is_some_and(is_usable)
            .then(|| known.keys.clone())
    }

    /// Reads the keys, unless that was tried within the gap.
    async fn read(&self, gap: Duration) {
        loop {
            let now = self.clock.monotonic();
            let (reading, is_new) = {
                let mut known = self.lock();
                let is_recent = |at: Duration| now.saturating_sub(at) < gap;
                match &known.reading {
                    Some(reading) => (reading.clone(), false),
                    None if known.tried_at.is_some_and(is_recent) => return,
                    None => {
                        // Before the read: clients that go away meanwhile would be free to begin another.
                        known.tried_at = Some(now);
                        let source = self.source.clone();
                        let reading = async move {
                            let read = source.keys().await;
                            read.map(Arc::from).map_err(Arc::from)
                        };
                        let reading = reading.boxed().shared();
                        known.reading = Some(reading.clone());
                        (reading, true)
                    }
                }
            };
            let read = reading.clone().await;
            self.take(&reading, &read);
            // One that was left alone may have run into its time limit meanwhile.
            if is_new || read.is_ok() {
                return;
            }
        }
    }

    /// Takes over what was read, for all that have waited for it.
    fn take(&self, reading: &Reading, read: &Result<Arc<[PublicKey]>, Arc<str>>) {
        let mut known = self.lock();
        if !known.reading.as_ref().is_some_and(|it| it.ptr_eq(reading)) {
            return;
        }
        known.reading = None;
        match read {
            Ok(keys) => {
                if known.read_at.is_none() || known.has_failed {
                    tracing::info!(keys = keys.len(), "the keys for access tokens were read");
                }
                if keys.is_empty() {
                    tracing::warn!(
                        "the issuer of access tokens has no key that can be used: every token is refused"
                    );
                }
                known.keys = keys.clone();
                (known.read_at, known.has_failed) = (known.tried_at, false);
            }
            Err(error) => {
                known.has_failed = true;
                let hours = LONGEST_USE.as_secs() / 3600;
                tracing::warn!(
                    %error,
                    "the keys for access tokens cannot be read: those read last count for {hours} hours"
                );
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, KnownKeys> {
        self.known.lock()
    }
}

/// By its `kid`; a token without one can mean only the one key that there is for its algorithm.
fn one(keys: &[PublicKey], kid: Option<&str>, algorithm: Algorithm) -> Option<PublicKey> {
    let mut fitting = keys
        .iter()
        .filter(|key| key.algorithms.contains(&algorithm))
        .filter(|key| kid.is_none() || key.id.as_deref() == kid);
    let found = fitting.next()?;
    (kid.is_some() || fitting.next().is_none()).then(|| found.clone())
}
