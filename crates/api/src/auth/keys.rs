//! Callers by API key. A key that was read counts for some seconds, so that a request costs no query of
//! its own; a key that another process has revoked is refused after that. Must not hold a secret.

use super::unauthenticated;
use crate::caller::Caller;
use crate::problem::Refused;
use counterstep_kernel::Engine;
use counterstep_kernel::api_keys::ApiKey;
use counterstep_kernel::documents::TypedDocuments;
use counterstep_kernel::ports::ApiKeyRow;
use counterstep_steps::times::DbTime;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So long a row counts that was read.
const KNOWN_FOR: Duration = Duration::from_secs(5);

/// Rows that are remembered. Callers with made-up ids fill no memory.
const MOST: usize = 10_000;

/// What was read of a key.
#[derive(Debug, Clone)]
struct Known {
    /// `None`: there is no such key.
    row: Option<Arc<ApiKeyRow>>,
    /// The database's clock when it was read.
    now: DbTime,
    read_at: Instant,
}

/// The keys that were read lately.
#[derive(Debug, Default)]
pub(crate) struct KnownKeys {
    keys: Mutex<HashMap<String, Known>>,
}

impl KnownKeys {
    pub(super) async fn caller(&self, engine: &Engine, token: &str) -> Result<Caller, Refused> {
        let key = ApiKey::parse(token).ok_or_else(unauthenticated)?;
        let known = match self.remembered(key.id()) {
            Some(known) => known,
            None => self.read(engine, key.id()).await?,
        };
        let now = known.now.later(known.read_at.elapsed());
        let row = known.row.filter(|row| key.is_valid(row, now));
        let row = row.ok_or_else(unauthenticated)?;
        Ok(Caller {
            tenant: row.tenant.clone(),
            subject: Some(row.subject.clone()),
            role: row.role,
        })
    }

    pub(super) fn forget(&self, key: &str) {
        self.lock().remove(key);
    }

    fn remembered(&self, id: &str) -> Option<Known> {
        let keys = self.lock();
        let known = keys.get(id)?;
        (known.read_at.elapsed() < KNOWN_FOR).then(|| known.clone())
    }

    async fn read(&self, engine: &Engine, id: &str) -> Result<Known, Refused> {
        let read_at = Instant::now();
        let found = engine.ports.store.api_key(id).await?;
        let known = Known {
            row: found.rows.into_iter().next().map(Arc::new),
            now: found.now,
            read_at,
        };
        let mut keys = self.lock();
        if keys.len() >= MOST {
            keys.retain(|_, known| known.read_at.elapsed() < KNOWN_FOR);
        }
        if keys.len() >= MOST {
            keys.clear();
        }
        keys.insert(id.to_owned(), known.clone());
        Ok(known)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
