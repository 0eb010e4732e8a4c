//! How many requests a caller may send: a steady rate, with a burst of one second. Each process counts for
//! itself. Must not know what a request is about.

use counterstep_contracts::{ProblemCode, Tenant};
use counterstep_operations::{Caller, Refused};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// A caller that sends less than the rate may send the requests of this time at once.
const BURST: Duration = Duration::from_secs(1);

/// Number of callers above which those are removed that have sent nothing for the burst.
const MOST: usize = 10_000;

/// The rates of all callers. A cell rate: each caller has the time up to which its requests are paid for,
/// and a request moves that by one interval.
#[derive(Debug)]
pub(crate) struct Rates {
    /// Between two requests of the rate; `None`: there is no limit.
    interval: Option<Duration>,
    paid: Mutex<HashMap<(Tenant, String), Instant>>,
}

impl Rates {
    pub(crate) fn new(per_second: Option<NonZeroU32>) -> Self {
        Self {
            interval: per_second.map(|rate| Duration::from_secs(1) / rate.get()),
            paid: Mutex::default(),
        }
    }

    /// Counts a request of a caller. One that is not authenticated has no limit of its own.
    pub(crate) fn count(&self, caller: &Caller, now: Instant) -> Result<(), Refused> {
        let (Some(interval), Some(subject)) = (self.interval, &caller.subject) else {
            return Ok(());
        };
        let mut paid = self.paid.lock();
        if paid.len() >= MOST {
            paid.retain(|_, until| *until > now);
        }
        let until = paid
            .entry((caller.tenant.clone(), subject.clone()))
            .or_insert(now);
        let ahead = until.saturating_duration_since(now);
        if ahead + interval > BURST.max(interval) {
            let wait = (ahead + interval).saturating_sub(BURST.max(interval));
            let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
            let detail = "the caller sends more requests than it may: send them more slowly";
            let refused = Refused::new(ProblemCode::TooManyRequests, detail);
            return Err(refused.retry_after(seconds.saturating_add(1)));
        }
        *until = now + ahead + interval;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::access::Role;

    fn caller(subject: &str) -> Caller {
        Caller {
            tenant: Tenant::default(),
            subject: Some(subject.to_owned()),
            role: Role::Submit,
            key: None,
            expires_at: None,
            address: None,
        }
    }

    #[test]
    fn a_burst_of_a_second_is_let_through_and_then_the_rate() {
        let rates = Rates::new(NonZeroU32::new(10));
        let begin = Instant::now();
        let count = |subject: &str, millis: u64| {
            let now = begin + Duration::from_millis(millis);
            rates.count(&caller(subject), now).is_ok()
        };
        let burst = (0..30).filter(|_| count("shop", 0)).count();
        assert_eq!(burst, 10);
        assert!(count("other", 0), "each has its own");
        assert!(!count("shop", 99));
        assert!(count("shop", 100));
        assert!(!count("shop", 100));
        let steady = (0..1000).filter(|at| count("shop", 200 + at * 10)).count();
        assert_eq!(steady, 100, "ten seconds");
        let again = (0..30).filter(|_| count("shop", 60_000)).count();
        assert_eq!(again, 10);
    }

    #[test]
    fn less_than_one_a_second_cannot_be_set_and_one_lets_one_through() {
        let rates = Rates::new(NonZeroU32::new(1));
        let now = Instant::now();
        assert!(rates.count(&caller("shop"), now).is_ok());
        let refused = rates.count(&caller("shop"), now).unwrap_err();
        assert_eq!(refused.code(), ProblemCode::TooManyRequests);
        assert!(rates.count(&caller("shop"), now + BURST).is_ok());
        let none = Rates::new(None);
        assert!((0..1000).all(|_| none.count(&caller("shop"), now).is_ok()));
        let open = Caller::anyone();
        assert!((0..1000).all(|_| rates.count(&open, now).is_ok()));
    }
}
