//! Whether a series of samples grows for good. Measures nothing.

/// What a series may grow in the time that is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    /// Of its median.
    pub(super) share: f64,
    /// Where that is less: in its own unit.
    pub(super) least: f64,
}

/// How a series went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trend {
    pub(super) median: f64,
    /// In the whole time that is judged.
    pub(super) growth: f64,
    /// The most that it may grow.
    pub(super) bound: f64,
}

impl Trend {
    pub(super) fn is_leak(self) -> bool {
        self.growth > self.bound
    }
}

/// The trend of samples, each a time and a value: the median of the slopes between all pairs of them (Theil and Sen), times the
/// time from the first to the last one. `None`: too few.
pub(super) fn trend(samples: &[(f64, f64)], bound: Bound) -> Option<Trend> {
    if samples.len() < LEAST {
        return None;
    }
    let (first, last) = (samples.first()?, samples.last()?);
    let of_pair = |at: usize| {
        let (time, value) = samples[at];
        let later = samples[at + 1..].iter();
        later
            .filter(move |(later, _)| *later > time)
            .map(move |(later, now)| (now - value) / (later - time))
    };
    let slope = median((0..samples.len()).flat_map(of_pair).collect())?;
    let median = median(samples.iter().map(|(_, value)| *value).collect())?;
    Some(Trend {
        median,
        growth: slope * (last.0 - first.0),
        bound: bound.least.max(bound.share * median),
    })
}

/// Samples below which nothing is decided.
const LEAST: usize = 10;

fn median(mut values: Vec<f64>) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let middle = values.len() / 2;
    let (_, median, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    Some(*median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Chance;

    const BOUND: Bound = Bound {
        share: 0.1,
        least: 5.0,
    };

    /// 45 minutes, a sample each five seconds, of what `value` makes of the time and of noise from -1 to 1.
    fn series(seed: u64, value: impl Fn(f64, f64) -> f64) -> Vec<(f64, f64)> {
        let mut chance = Chance::new(seed);
        let sample = |at: u32| {
            let at = f64::from(at) * 5.0;
            let noise = f64::from(u32::try_from(chance.within(0, 2_001)).unwrap()) / 1_000.0 - 1.0;
            (at, value(at, noise))
        };
        (0..540).map(sample).collect()
    }

    fn is_leak(samples: &[(f64, f64)]) -> bool {
        trend(samples, BOUND).unwrap().is_leak()
    }

    #[test]
    fn what_is_flat_with_noise_is_no_leak() {
        for seed in 0..50 {
            // A fifth up and down, and a wave of ten minutes.
            let flat = series(seed, |at, noise| {
                100.0 + 20.0 * noise + 5.0 * (at / 95.0).sin()
            });
            assert!(!is_leak(&flat), "seed {seed}: {:?}", trend(&flat, BOUND));
        }
    }

    #[test]
    fn what_grows_by_more_than_its_bound_is_a_leak() {
        for seed in 0..50 {
            let leak = |of_100: f64| {
                series(seed, move |at, noise| {
                    100.0 + of_100 * at / 2_700.0 + 20.0 * noise
                })
            };
            assert!(is_leak(&leak(20.0)), "seed {seed}");
            assert!(!is_leak(&leak(2.0)), "seed {seed}");
        }
    }

    #[test]
    fn samples_of_a_fault_decide_nothing_whenever_it_strikes() {
        for (from, to) in [(0.0, 400.0), (1_200.0, 1_600.0), (2_300.0, 2_700.0)] {
            let struck = series(1, |at, noise| {
                let away = (from..to).contains(&at);
                if away { 900.0 } else { 100.0 + noise }
            });
            assert!(
                !is_leak(&struck),
                "{from} to {to}: {:?}",
                trend(&struck, BOUND)
            );
        }
    }

    #[test]
    fn what_shrinks_or_rises_once_at_the_begin_is_no_leak() {
        assert!(!is_leak(&series(2, |at, noise| 200.0 - at / 30.0 + noise)));
        let warms_up = |at: f64, noise| 100.0 + noise - 40.0 * (-at / 200.0).exp();
        assert!(!is_leak(&series(3, warms_up)));
    }

    #[test]
    fn a_small_series_may_grow_by_its_least_bound_and_few_samples_decide_nothing() {
        let small = |most: f64| series(4, move |at, _| 10.0 + most * at / 2_700.0);
        assert!(!is_leak(&small(4.5)));
        assert!(is_leak(&small(6.0)));
        assert_eq!(trend(&small(6.0)[..9], BOUND), None);
    }
}
