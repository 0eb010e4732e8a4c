//! How the installation was doing in the last hour: this process looks at it now and then, for people who open
//! a page and ask what it was like before. Must not hold more than that; monitors keep what is older.

use counterstep_contracts::workers::{HistoryView, SampleView};
use counterstep_kernel::Engine;
use counterstep_kernel::status;
use counterstep_steps::CancelToken;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const KEPT: Duration = Duration::from_secs(3600);

/// Maximum number of samples, at whatever interval.
const MOST: usize = 720;

/// Sampling takes at most a twentieth of the time: the pause is this many times as long as the sampling took.
const SHARE: u32 = 20;

/// What was found, the first first.
#[derive(Debug, Clone, Default)]
pub(crate) struct History(Arc<Mutex<VecDeque<SampleView>>>);

impl History {
    pub(crate) fn view(&self) -> HistoryView {
        let samples = self.0.lock();
        HistoryView {
            samples: samples.iter().cloned().collect(),
        }
    }

    /// Looks each time that this has passed, until the process stops.
    pub(crate) async fn keep(self, engine: Engine, every: Duration, shutdown: CancelToken) {
        let most = KEPT.as_millis() / every.as_millis().max(1);
        let most = usize::try_from(most).unwrap_or(MOST).clamp(1, MOST);
        let mut since = None;
        loop {
            let begun = Instant::now();
            match status::look(&engine, since).await {
                // The first has nothing to count from.
                Ok((now, sample)) => {
                    if since.replace(now).is_some() {
                        self.add(sample, most);
                    }
                }
                Err(error) => tracing::debug!(%error, "the installation could not be looked at"),
            }
            let pause = every.max(begun.elapsed() * SHARE);
            if shutdown.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    fn add(&self, sample: SampleView, most: usize) {
        let mut samples = self.0.lock();
        samples.push_back(sample);
        while samples.len() > most {
            samples.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_first() {
        let history = History::default();
        for submitted in 0..5 {
            let sample = SampleView {
                submitted,
                ..SampleView::default()
            };
            history.add(sample, 3);
        }
        let kept: Vec<_> = history
            .view()
            .samples
            .iter()
            .map(|it| it.submitted)
            .collect();
        assert_eq!(kept, [2, 3, 4]);
    }
}
