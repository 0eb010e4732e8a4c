//! How often something took how long, in buckets of which each is a little wider than the one before: small, and two of them add up.

use counterstep_contracts::durations::Percentiles;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Buckets for each doubling: each is 9 % wider than the one before, so its middle is less than 5 % away from what is in it.
const PER_DOUBLING: f64 = 8.0;

/// Counts by bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Histogram(BTreeMap<u16, u64>);

/// Of a time in milliseconds; less than one counts as one.
fn bucket(millis: f64) -> u16 {
    // There are 424 of them up to 2^53 ms.
    (millis.max(1.0).log2() * PER_DOUBLING).floor() as u16
}

/// The middle of a bucket, in milliseconds.
fn middle(bucket: u16) -> u64 {
    ((f64::from(bucket) + 0.5) / PER_DOUBLING).exp2().round() as u64
}

impl Histogram {
    pub(super) fn add(&mut self, took: Duration) {
        *self
            .0
            .entry(bucket(took.as_secs_f64() * 1_000.0))
            .or_default() += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            *self.0.entry(*bucket).or_default() += count;
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// `None`: nothing was counted.
    pub(super) fn percentiles(&self) -> Option<Percentiles> {
        let count = self.count();
        let at = |percent: u64| {
            let mut left = (count * percent).div_ceil(100);
            let found = self.0.iter().find(|(_, in_it)| {
                let is_here = left <= **in_it;
                left = left.saturating_sub(**in_it);
                is_here
            });
            found.map(|(bucket, _)| middle(*bucket))
        };
        Some(Percentiles {
            count,
            p50_ms: at(50)?,
            p95_ms: at(95)?,
            p99_ms: at(99)?,
        })
    }

    /// Of 100 how many took less than this, rounded down.
    pub(super) fn faster_than(&self, took: Duration) -> Option<u8> {
        let own = bucket(took.as_secs_f64() * 1_000.0);
        let faster: u64 = self.0.range(..own).map(|(_, count)| count).sum();
        u8::try_from((faster * 100).checked_div(self.count())?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        for millis in all {
            histogram.add(Duration::from_millis(millis));
        }
        histogram
    }

    #[test]
    fn percentiles_are_within_a_twentieth_of_what_was_measured() {
        assert_eq!(Histogram::default().percentiles(), None);
        for scale in [1, 7, 1_000, 3_600_000] {
            let found = of((1..=1_000).map(|it| it * scale)).percentiles();
            let found = found.expect("some");
            assert_eq!(found.count, 1_000);
            for (is, exact) in [
                (found.p50_ms, 500 * scale),
                (found.p95_ms, 950 * scale),
                (found.p99_ms, 990 * scale),
            ] {
                assert!(is.abs_diff(exact) * 20 <= exact, "{is} for {exact}");
            }
        }
        let one = of([0]).percentiles().expect("one");
        assert_eq!((one.count, one.p50_ms, one.p99_ms), (1, 1, 1));
    }

    #[test]
    fn two_that_are_merged_are_one_of_all() {
        let mut both = of(1..400);
        both.merge(&of(400..1_000));
        assert_eq!(both, of(1..1_000));
    }

    #[test]
    fn a_time_is_slower_than_those_in_the_buckets_before_its_own() {
        let all = of(1..=100);
        assert_eq!(all.faster_than(Duration::from_millis(1)), Some(0));
        assert_eq!(all.faster_than(Duration::from_secs(1)), Some(100));
        let half = all.faster_than(Duration::from_millis(50)).expect("some");
        assert!((45..=50).contains(&half), "{half}");
        assert_eq!(Histogram::default().faster_than(Duration::ZERO), None);
    }
}
