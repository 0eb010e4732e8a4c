//! Closed loops of clients, and what they saw.

use crate::failed::Failed;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Submits one task and returns when it has completed.
pub(crate) type Client = Arc<dyn Fn() -> BoxFuture<'static, Result<(), Failed>> + Send + Sync>;

/// Until pools are filled, statements prepared and caches warm.
const WARM_UP: Duration = Duration::from_secs(2);

/// What a run of clients saw.
#[derive(Debug, Clone)]
pub(crate) struct LoadResult {
    elapsed: Duration,
    /// From submission to completion, sorted: one for each task that completed within the measured
    /// time.
    latencies: Vec<Duration>,
}

impl LoadResult {
    /// Tasks that completed.
    pub(crate) fn tasks(&self) -> usize {
        self.latencies.len()
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.tasks() as f64 / self.elapsed.as_secs_f64()
    }

    /// The latency that `percent` of the tasks did not exceed.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies
            .get((self.latencies.len() * percent / 100).min(last))
            .copied()
            .unwrap_or_default()
    }
}

/// Keeps `in_flight` tasks going for the measured time, after a warm-up. `mark` is called at the beginning
/// and at the end of the measured time.
pub(crate) async fn run(
    client: Client,
    in_flight: usize,
    duration: Duration,
    mut mark: impl FnMut(),
) -> Result<LoadResult, Failed> {
    let started = Instant::now();
    let (from, until) = (started + WARM_UP, started + WARM_UP + duration);
    let clients: Vec<_> = (0..in_flight)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while Instant::now() < until {
                    let begun = Instant::now();
                    client().await?;
                    let ended = Instant::now();
                    if ended >= from && ended < until {
                        latencies.push(ended - begun);
                    }
                }
                Ok::<_, Failed>(latencies)
            })
        })
        .collect();
    tokio::time::sleep_until(from.into()).await;
    mark();
    tokio::time::sleep_until(until.into()).await;
    mark();
    let mut latencies = Vec::new();
    for client in clients {
        latencies.extend(client.await.map_err(Failed::of)??);
    }
    latencies.sort_unstable();
    if latencies.is_empty() {
        return Err(Failed(format!("no task completed within {duration:?}")));
    }
    Ok(LoadResult {
        elapsed: duration,
        latencies,
    })
}
