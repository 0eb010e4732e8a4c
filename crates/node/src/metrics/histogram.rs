//! A histogram of durations that costs two atomic additions. That of the library takes a lock.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in seconds, from what a commit takes to what a person takes.
const BOUNDS: [f64; 18] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
    1_800.0, 7_200.0, 86_400.0,
];

/// Durations. Clones are one histogram.
#[derive(Debug, Clone, Default)]
pub(super) struct Histogram(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// The last one has no bound.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    microseconds: AtomicU64,
}

impl Histogram {
    pub(super) fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let at = BOUNDS.partition_point(|bound| *bound < seconds);
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.0.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.0.microseconds.fetch_add(micros, Ordering::Relaxed);
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
        let counts = self.0.buckets.iter().map(|it| it.load(Ordering::Relaxed));
        let buckets: Vec<_> = bounds.zip(counts).collect();
        // Of the same reads: a page never has more in a bucket than in all.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_micros(self.0.microseconds.load(Ordering::Relaxed));
        encoder.encode_histogram::<NoLabelSet>(sum.as_secs_f64(), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
