//! What a failed attempt leads to under a retry policy. Pure: chance comes in as bits.

use crate::error::ErrorClass;
use counterstep_contracts::RetryPolicy;
use std::time::Duration;

/// Delays below this are waited out with the lease held; from here on the task sleeps and its slot
/// is free.
pub const INLINE_LIMIT: Duration = Duration::from_secs(1);

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another attempt, after this long.
    Retry(Duration),
    /// No further attempt.
    GiveUp,
}

/// Decides whether and when to try again after `retries_used` retries so far. `bits` is used for
/// jitter only.
#[must_use]
pub fn decide_retry(
    policy: &RetryPolicy,
    class: ErrorClass,
    retries_used: u32,
    bits: u128,
) -> Next {
    if !class.is_retryable() || retries_used >= policy.max_retries {
        return Next::GiveUp;
    }
    let delay = jittered(policy, policy.delay_before_jitter(retries_used + 1), bits);
    Next::Retry(match class {
        // The other side knows better than the policy how long it wants to be left alone.
        ErrorClass::RateLimited(after) => delay.max(after),
        ErrorClass::Transient
        | ErrorClass::TimedOut
        | ErrorClass::Panicked
        | ErrorClass::Permanent
        | ErrorClass::Cancelled => delay,
    })
}

/// Between half of the delay and the whole of it: a herd spreads, and the least delay keeps its
/// order of magnitude.
fn jittered(policy: &RetryPolicy, delay: Duration, bits: u128) -> Duration {
    if !policy.jitter {
        return delay;
    }
    let half = delay / 2;
    let span = u64::try_from(half.as_micros()).unwrap_or(u64::MAX);
    let share = (bits % (u128::from(span) + 1)) as u64;
    half + Duration::from_micros(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StepError;

    const POLICY: RetryPolicy = RetryPolicy::exponential("100ms").max_retries(3);

    #[test]
    fn retries_are_counted_after_the_first_try() {
        let busy = StepError::transient("busy").class;
        assert!(matches!(decide_retry(&POLICY, busy, 2, 0), Next::Retry(_)));
        assert_eq!(decide_retry(&POLICY, busy, 3, 0), Next::GiveUp);
        assert_eq!(decide_retry(&RetryPolicy::NONE, busy, 0, 0), Next::GiveUp);
    }

    #[test]
    fn permanent_and_cancelled_errors_are_never_retried() {
        for error in [StepError::permanent("no"), StepError::cancelled()] {
            assert_eq!(decide_retry(&POLICY, error.class, 0, 0), Next::GiveUp);
        }
    }

    #[test]
    fn jitter_stays_in_the_upper_half_of_the_delay() {
        for bits in [0, 1, 12_345_678_901, u128::MAX] {
            let Next::Retry(delay) = decide_retry(&POLICY, ErrorClass::Transient, 1, bits) else {
                panic!("one retry of three was used")
            };
            assert!(
                (Duration::from_millis(100)..=Duration::from_millis(200)).contains(&delay),
                "{delay:?}"
            );
        }
    }

    #[test]
    fn a_rate_limit_is_honoured_when_it_is_longer_than_delay_and_cap() {
        let asked = ErrorClass::RateLimited(Duration::from_secs(9));
        assert_eq!(
            decide_retry(&POLICY, asked, 0, 0),
            Next::Retry(Duration::from_secs(9))
        );
        assert_eq!(
            decide_retry(&POLICY.cap("1s"), asked, 0, 0),
            Next::Retry(Duration::from_secs(9))
        );
        let soon = ErrorClass::RateLimited(Duration::from_millis(1));
        assert_eq!(
            decide_retry(&POLICY.jitter(false), soon, 0, 0),
            Next::Retry(Duration::from_millis(100))
        );
    }
}
