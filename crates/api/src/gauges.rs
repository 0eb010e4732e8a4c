//! What is under way, kept for a few seconds: however many requests come, the database is
//! queried once in that time.

use counterstep_contracts::open_effects::OpenEffectSums;
use counterstep_kernel::Engine;
use counterstep_kernel::operator::sum_parked_open_effects;
use counterstep_kernel::ports::StoreError;
use counterstep_kernel::status::{self, InstallationFigures};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// Timeout of an answer, of which a page needs two: the caller has a timeout of its own, often a few seconds.
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
    /// With the number of tasks that were parked.
    open_effects: Last<(u64, OpenEffectSums)>,
}

impl Gauges {
    /// What is under way, no older than `keep`; `None`: the database does not answer.
    pub(crate) async fn get(&self, engine: &Engine, keep: Duration) -> Option<InstallationFigures> {
        let figures = status::figures(engine);
        self.installation.get(keep, |_| keep, figures).await
    }

    /// Open effects of the parked tasks of all tenants, where so many are parked.
    pub(crate) async fn open_effects(
        &self,
        engine: &Engine,
        keep: Duration,
        parked: u64,
    ) -> Option<OpenEffectSums> {
        let keep_found = |(before, _): &(u64, _)| match *before == parked {
            true => keep * OPEN_EFFECTS,
            false => keep,
        };
        let read = async { Ok((parked, sum_parked_open_effects(engine).await?)) };
        let found = self.open_effects.get(keep, keep_found, read).await;
        found.map(|(_, sums)| sums)
    }
}

impl<T> Default for Last<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Last<T> {
    /// What `read` finds. It is kept for `keep_found`; that there was no answer, for `keep`.
    // The lock is held while the database is asked: those who come meanwhile wait for its answer,
    // and ask nothing.
    async fn get(
        &self,
        keep: Duration,
        keep_found: impl Fn(&T) -> Duration,
        read: impl Future<Output = Result<T, StoreError>>,
    ) -> Option<T> {
        let mut last = self.0.lock().await;
        if let Some((at, found)) = &*last
            && at.elapsed() < found.as_ref().map_or(keep, keep_found)
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
