//! Circuit breakers as data: after how many failures a step stops trying a dependency that is down,
//! and for how long. What a breaker does is worked out in `counterstep_steps::breaker`.

use crate::retry::positive;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// When attempts at something are not worth starting. A value of neutral data, usable in a `const`:
///
/// ```
/// # use counterstep_contracts::BreakerPolicy;
/// pub const PAYMENTS: BreakerPolicy =
///     BreakerPolicy::named("payments").after_failures(5).within("1m").open_for("30s");
/// ```
///
/// An impossible policy is an error of the compiler: the constructors panic during constant
/// evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BreakerPolicy {
    /// The dependency it stands for: all steps of all task types that name it share one breaker.
    /// `None`: each step that names the constant has its own.
    pub name: Option<&'static str>,
    /// Opens at this number of failures ...
    pub after_failures: u32,
    /// ... in a window of this length, which starts with the first of them.
    #[serde(serialize_with = "crate::retry::as_text")]
    #[schemars(with = "String")]
    pub within: Duration,
    /// How long it stays open. Then a single attempt is let through as a probe.
    #[serde(serialize_with = "crate::retry::as_text")]
    #[schemars(with = "String")]
    pub open_for: Duration,
}

/// What is impossible about a breaker. Where it was written says in its own words what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerFault {
    /// The name is empty, longer than 64, or has other characters than letters, digits, `_`, `-`
    /// and `.`.
    BadName,
    /// It would be open before the first failure.
    NoFailures,
    /// The window has no length.
    NoWindow,
    /// It would never be open.
    NeverOpen,
}

impl BreakerPolicy {
    /// Of a dependency: 5 failures within a minute open it for 30 seconds, unless said otherwise.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        assert!(
            is_name(name),
            "a breaker's name has 1 to 64 letters, digits, `_`, `-` and `.`"
        );
        Self {
            name: Some(name),
            ..Self::per_step()
        }
    }

    /// Of each step that names it, by itself; with the same defaults.
    #[must_use]
    pub const fn per_step() -> Self {
        Self {
            name: None,
            after_failures: 5,
            within: Duration::from_secs(60),
            open_for: Duration::from_secs(30),
        }
    }

    /// Opens at `failures` failures within its window; at least 1. A failure is an attempt that ended as
    /// transient, timed out or panicked.
    #[must_use]
    pub const fn after_failures(mut self, failures: u32) -> Self {
        assert!(failures > 0, "a breaker opens after 1 failure or more");
        self.after_failures = failures;
        self
    }

    /// The length of the window in which failures are counted, as in `"1m"`.
    #[must_use]
    pub const fn within(mut self, window: &str) -> Self {
        self.within = positive(window);
        self
    }

    /// How long it stays open before a probe, as in `"30s"`.
    #[must_use]
    pub const fn open_for(mut self, time: &str) -> Self {
        self.open_for = positive(time);
        self
    }

    /// What is impossible about it. The constructors cannot make such a policy; a struct literal,
    /// or settings, can.
    #[must_use]
    pub const fn fault(&self) -> Option<BreakerFault> {
        match self.name {
            Some(name) if !is_name(name) => return Some(BreakerFault::BadName),
            _ => {}
        }
        if self.after_failures == 0 {
            return Some(BreakerFault::NoFailures);
        }
        if self.within.is_zero() {
            return Some(BreakerFault::NoWindow);
        }
        if self.open_for.is_zero() {
            Some(BreakerFault::NeverOpen)
        } else {
            None
        }
    }

    /// The key under which a step's breaker is kept: its name, or the step's own.
    #[must_use]
    pub fn key_of(&self, task_type: &str, step: &str) -> String {
        // A name has no slash, so that a step never shares the breaker of a dependency by accident.
        self.name
            .map_or_else(|| format!("{task_type}/{step}"), str::to_owned)
    }
}

/// A breaker's name becomes a part of keys.
pub(crate) const fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > 64 {
        return false;
    }
    let mut at = 0;
    while at < bytes.len() {
        if !(bytes[at].is_ascii_alphanumeric() || matches!(bytes[at], b'_' | b'-' | b'.')) {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_constructors_refuse_is_a_fault() {
        const FINE: BreakerPolicy = BreakerPolicy::named("payments")
            .after_failures(1)
            .within("1ms")
            .open_for("7d");
        assert_eq!(FINE.fault(), None);
        let zero = Duration::ZERO;
        for (policy, fault) in [
            (
                BreakerPolicy {
                    name: Some(""),
                    ..FINE
                },
                BreakerFault::BadName,
            ),
            (
                BreakerPolicy {
                    name: Some("pay ments"),
                    ..FINE
                },
                BreakerFault::BadName,
            ),
            (
                BreakerPolicy {
                    after_failures: 0,
                    ..FINE
                },
                BreakerFault::NoFailures,
            ),
            (
                BreakerPolicy {
                    within: zero,
                    ..FINE
                },
                BreakerFault::NoWindow,
            ),
            (
                BreakerPolicy {
                    open_for: zero,
                    ..FINE
                },
                BreakerFault::NeverOpen,
            ),
        ] {
            assert_eq!(policy.fault(), Some(fault));
        }
    }

    #[test]
    fn a_named_breaker_is_shared_and_another_one_is_its_steps() {
        let (named, own) = (BreakerPolicy::named("payments"), BreakerPolicy::per_step());
        assert_eq!(
            named.key_of("Order", "charge"),
            named.key_of("Booking", "pay")
        );
        assert_ne!(own.key_of("Order", "charge"), own.key_of("Order", "refund"));
    }
}
