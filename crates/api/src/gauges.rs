//! What is under way, kept for a few seconds: however many requests come, the database is
//! queried once in that time.

use counterstep_contracts::open_effects::OpenEffectSums;
use counterstep_kernel::Engine;
use counterstep_kernel::operator::sum_all_open_effects;
use counterstep_kernel::ports::StoreError;
use counterstep_kernel::status::{self, InstallationFigures};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// Timeout of an answer: the caller has a timeout of its own, often a few seconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// How many times as long open effects are kept while as many tasks are parked: each look reads rows of tasks.
const OPEN_EFFECTS: u32 = 12;

/// What was found last, and when.
#[derive(Debug)]
struct Last<T>(Mutex<Option<(Instant, Option<T>)>>);

/// What metrics show of the installation.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    installation: Last<InstallationFigures>,
    open_effects: Last<OpenEffectSums>,
    /// Tasks that were parked at the last look at open effects.
    parked: AtomicU64,
}

impl Gauges {
    /// What is under way, no older than `keep`; `None`: the database does not answer.
    pub(crate) async fn get(&self, engine: &Engine, keep: Duration) -> Option<InstallationFigures> {
        self.installation.get(keep, status::figures(engine)).await
    }

    /// Open effects of all tenants, where so many tasks are parked.
    pub(crate) async fn open_effects(
        &self,
        engine: &Engine,
        keep: Duration,
        parked: u64,
    ) -> Option<OpenEffectSums> {
        let keep = match self.parked.swap(parked, Ordering::Relaxed) == parked {
            true => keep * OPEN_EFFECTS,
            false => Duration::ZERO,
        };
        self.open_effects
            .get(keep, sum_all_open_effects(engine))
            .await
    }
}

impl<T> Default for Last<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Last<T> {
    // The lock is held while the database is asked: those who come meanwhile wait for its answer,
    // and ask nothing.
    async fn get(
        &self,
        keep: Duration,
        read: impl Future<Output = Result<T, StoreError>>,
    ) -> Option<T> {
        let mut last = self.0.lock().await;
        if let Some((at, found)) = &*last
            && at.elapsed() < keep
        {
            return found.clone();
        }
        let found = match timeout(PATIENCE, read).await {
            Ok(Ok(found)) => Some(found),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the gauges could not be read");
                None
            }
            Err(_) => {
                tracing::warn!("the gauges could not be read: no answer within {PATIENCE:?}");
                None
            }
        };
        *last = Some((Instant::now(), found.clone()));
        found
    }
}
