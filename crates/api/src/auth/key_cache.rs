//! Callers by API key. A key that was read counts for some seconds, so that a request costs no query of
//! its own; a key that another process has revoked is refused after that. Must not hold a secret.

use super::bearer::unauthenticated;
use counterstep_kernel::Engine;
use counterstep_kernel::access::api_keys::ApiKey;
use counterstep_kernel::engine::time_limits::needed_read;
use counterstep_kernel::ports::{ApiKeyRow, StoreError};
use counterstep_operations::{Caller, Refused};
use counterstep_steps::times::DbTime;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// How long a row that was read is used before it is read again.
const FRESH: Duration = Duration::from_secs(5);

/// Maximum number of ids without a key that are remembered. Made-up ids of callers fill no memory, and remove
/// no key.
const MAX_MISSES: usize = 10_000;

/// Maximum number of reads at a time of ids that are not remembered: callers with made-up ids take no more of
/// the database.
const UNKNOWN_AT_ONCE: usize = 4;

/// A key as it was read.
#[derive(Debug, Clone)]
struct CachedKey {
    row: Arc<ApiKeyRow>,
    /// The database's clock when it was read.
    now: DbTime,
    read_at: Instant,
}

/// The keys that were read.
#[derive(Debug)]
pub(crate) struct KeyCache {
    keys: Mutex<HashMap<String, CachedKey>>,
    misses: Mutex<HashMap<String, Instant>>,
    unknown: Semaphore,
}

impl Default for KeyCache {
    fn default() -> Self {
        Self {
            keys: Mutex::default(),
            misses: Mutex::default(),
            unknown: Semaphore::new(UNKNOWN_AT_ONCE),
        }
    }
}

impl KeyCache {
    pub(super) async fn caller(&self, engine: &Engine, token: &str) -> Result<Caller, Refused> {
        let key = ApiKey::parse(token).ok_or_else(unauthenticated)?;
        let found = self.key(engine, key.id()).await?;
        let found = found.filter(|it| key.is_valid(&it.row, it.now.later(it.read_at.elapsed())));
        let row = found.ok_or_else(unauthenticated)?.row;
        Ok(Caller {
            tenant: row.tenant.clone(),
            subject: Some(row.subject.clone()),
            role: row.role,
            key: Some(row.id.clone()),
            expires_at: None,
            address: None,
        })
    }

    /// Whether a key that has let a caller in would still do so. Where that cannot be read, it counts.
    pub(super) async fn is_valid(&self, engine: &Engine, id: &str) -> bool {
        match self.key(engine, id).await {
            Ok(Some(it)) => it.row.is_valid_at(it.now.later(it.read_at.elapsed())),
            Ok(None) => false,
            Err(_) => true,
        }
    }

    pub(super) fn forget(&self, key: &str) {
        lock(&self.keys).remove(key);
    }

    async fn key(&self, engine: &Engine, id: &str) -> Result<Option<CachedKey>, StoreError> {
        let known = lock(&self.keys).get(id).cloned();
        if let Some(known) = known {
            if known.read_at.elapsed() < FRESH {
                return Ok(Some(known));
            }
            return needed_read(engine.ports.clock.as_ref(), self.read(engine, id)).await;
        }
        let is_missing = |at: &Instant| at.elapsed() < FRESH;
        if lock(&self.misses).get(id).is_some_and(is_missing) {
            return Ok(None);
        }
        // With the wait for its turn: behind reads without an answer it would have no end.
        let read = async {
            let _permit = self.unknown.acquire().await;
            self.read(engine, id).await
        };
        needed_read(engine.ports.clock.as_ref(), read).await
    }

    async fn read(&self, engine: &Engine, id: &str) -> Result<Option<CachedKey>, StoreError> {
        let read_at = Instant::now();
        let found = engine.ports.store.api_key(id).await?;
        let (now, row) = (found.now, found.rows.into_iter().next());
        let key = row.map(|row| CachedKey {
            row: Arc::new(row),
            now,
            read_at,
        });
        match &key {
            Some(key) => drop(lock(&self.keys).insert(id.to_owned(), key.clone())),
            None => {
                lock(&self.keys).remove(id);
                let mut misses = lock(&self.misses);
                if misses.len() >= MAX_MISSES {
                    misses.clear();
                }
                misses.insert(id.to_owned(), read_at);
            }
        }
        Ok(key)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
