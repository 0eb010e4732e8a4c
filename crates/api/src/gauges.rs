//! What is under way, kept for a few seconds: however many requests come, the database is
//! queried once in that time.

use counterstep_kernel::Engine;
use counterstep_kernel::status::{self, InstallationFigures};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

/// Timeout of an answer: the caller has a timeout of its own, often a few seconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was found last, and when.
#[derive(Debug, Default)]
pub(crate) struct Gauges(Mutex<Option<(Instant, Option<InstallationFigures>)>>);

impl Gauges {
    /// What is under way, no older than `keep`; `None`: the database does not say.
    // The lock is held while the database is asked: those who come meanwhile wait for its answer,
    // and ask nothing.
    pub(crate) async fn get(&self, engine: &Engine, keep: Duration) -> Option<InstallationFigures> {
        let mut last = self.0.lock().await;
        if let Some((at, found)) = &*last
            && at.elapsed() < keep
        {
            return found.clone();
        }
        let found = match timeout(PATIENCE, status::figures(engine)).await {
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
