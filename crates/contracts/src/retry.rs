//! Retry policies as data: how often, how long between, how long each. What a failed attempt leads
//! to under a policy is worked out in `counterstep_steps::retry_decision`.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;

/// The shape of the delays between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// Every delay is the base delay.
    Constant,
    /// The n-th delay is n times the base delay.
    Linear,
    /// Every delay is twice the one before.
    Exponential,
}

/// When and how often a step, or an undo, is tried again. A value of neutral data, usable in a
/// `const`:
///
/// ```
/// # use counterstep_contracts::RetryPolicy;
/// pub const ZIP_RETRY: RetryPolicy = RetryPolicy::exponential("500ms").max_retries(3).cap("10s");
/// ```
///
/// An impossible policy is an error of the compiler: the constructors panic during constant
/// evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RetryPolicy {
    /// How the delays grow.
    pub backoff: Backoff,
    /// First delay.
    #[serde(serialize_with = "crate::retry::as_text")]
    #[schemars(with = "String")]
    pub base: Duration,
    /// No delay is longer.
    #[serde(serialize_with = "crate::retry::as_text")]
    #[schemars(with = "String")]
    pub cap: Duration,
    /// Tries after the first one.
    pub max_retries: u32,
    /// Spread each delay evenly over the upper half of its length, so that a herd does not come
    /// back together.
    pub jitter: bool,
    /// Limit of a single attempt, a fresh one each; `None`: the limit of the settings (10 minutes
    /// by default).
    #[serde(serialize_with = "crate::retry::as_optional_text")]
    #[schemars(with = "Option<String>")]
    pub attempt_timeout: Option<Duration>,
}

/// What is impossible about a retry policy. Where it was written says in its own words what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyFault {
    /// More than [`RetryPolicy::MOST_RETRIES`].
    TooManyRetries,
    /// The base delay is zero.
    NoBase,
    /// The cap is below the base delay.
    CapBelowBase,
    /// The limit of an attempt is zero.
    NoTime,
}

impl RetryPolicy {
    /// Maximum number of retries: more than this is a schedule.
    pub const MOST_RETRIES: u32 = 1000;

    /// One try, no retry.
    pub const NONE: Self = Self::of(Backoff::Constant, Duration::from_millis(1)).max_retries(0);

    /// What a built-in step gets when its declaration names no policy: 9 attempts over at least 15
    /// seconds.
    pub const BUILT_IN: Self = Self::exponential("250ms").max_retries(8).cap("10s");

    /// What an undo gets when its declaration names no policy: undoing matters more than being
    /// quick.
    pub const UNDO: Self = Self::exponential("500ms").max_retries(8).cap("30s");

    const fn of(backoff: Backoff, base: Duration) -> Self {
        Self {
            backoff,
            base,
            // Never below its base, which a longer one would be.
            cap: if base.as_secs() < 3600 {
                Duration::from_secs(3600)
            } else {
                base
            },
            max_retries: 3,
            jitter: true,
            attempt_timeout: None,
        }
    }

    /// The same delay each time. `base` as in `"500ms"`, `"2s"`, `"5m"`, `"1h"`.
    #[must_use]
    pub const fn constant(base: &str) -> Self {
        Self::of(Backoff::Constant, positive(base))
    }

    /// The n-th delay is n × `base`.
    #[must_use]
    pub const fn linear(base: &str) -> Self {
        Self::of(Backoff::Linear, positive(base))
    }

    /// The delay doubles each time, from `base`.
    #[must_use]
    pub const fn exponential(base: &str) -> Self {
        Self::of(Backoff::Exponential, positive(base))
    }

    /// Tries after the first one; at most 1000.
    #[must_use]
    pub const fn max_retries(mut self, retries: u32) -> Self {
        assert!(
            retries <= Self::MOST_RETRIES,
            "max_retries is at most 1000: a longer series is a schedule, not a retry"
        );
        self.max_retries = retries;
        self
    }

    /// No delay longer than this.
    #[must_use]
    pub const fn cap(mut self, cap: &str) -> Self {
        let cap = positive(cap);
        assert!(
            cap.as_nanos() >= self.base.as_nanos(),
            "the cap of a retry policy must not be below its base delay"
        );
        self.cap = cap;
        self
    }

    /// Whether delays are spread; on by default.
    #[must_use]
    pub const fn jitter(mut self, on: bool) -> Self {
        self.jitter = on;
        self
    }

    /// Limit of a single attempt.
    #[must_use]
    pub const fn attempt_timeout(mut self, limit: &str) -> Self {
        self.attempt_timeout = Some(positive(limit));
        self
    }

    /// What is impossible about it. The constructors cannot make such a policy; a struct literal,
    /// or settings, can.
    #[must_use]
    pub const fn fault(&self) -> Option<PolicyFault> {
        if self.max_retries > Self::MOST_RETRIES {
            return Some(PolicyFault::TooManyRetries);
        }
        if self.base.is_zero() {
            return Some(PolicyFault::NoBase);
        }
        if self.cap.as_nanos() < self.base.as_nanos() {
            return Some(PolicyFault::CapBelowBase);
        }
        match self.attempt_timeout {
            Some(limit) if limit.is_zero() => Some(PolicyFault::NoTime),
            _ => None,
        }
    }

    /// The longest the delays can add up to.
    #[must_use]
    pub fn longest_total_delay(&self) -> Duration {
        (1..=self.max_retries)
            .map(|n| self.delay_before_jitter(n))
            .sum()
    }

    /// Delay before the `n`-th retry (from 1), before jitter.
    #[must_use]
    pub fn delay_before_jitter(&self, n: u32) -> Duration {
        let factor = match self.backoff {
            Backoff::Constant => 1,
            Backoff::Linear => n.max(1),
            Backoff::Exponential => 1u32.checked_shl(n.saturating_sub(1)).unwrap_or(u32::MAX),
        };
        self.base
            .checked_mul(factor)
            .map_or(self.cap, |delay| delay.min(self.cap))
    }
}

pub(crate) const fn positive(text: &str) -> Duration {
    match parse_duration(text) {
        Some(duration) if !duration.is_zero() => duration,
        _ => panic!("a duration is a whole number above 0 with a unit: 500ms, 2s, 5m, 1h, 7d"),
    }
}

/// Reads `500ms`, `2s`, `5m`, `1h` or `7d`; `None` for anything else. Usable in constants.
#[must_use]
pub const fn parse_duration(text: &str) -> Option<Duration> {
    let bytes = text.as_bytes();
    let mut value: u64 = 0;
    let mut at = 0;
    while at < bytes.len() && bytes[at].is_ascii_digit() {
        value = match value.checked_mul(10) {
            Some(tens) => match tens.checked_add((bytes[at] - b'0') as u64) {
                Some(sum) => sum,
                None => return None,
            },
            None => return None,
        };
        at += 1;
    }
    if at == 0 {
        return None;
    }
    let unit = match bytes.len() - at {
        1 => match bytes[at] {
            b's' => 1_000,
            b'm' => 60_000,
            b'h' => 3_600_000,
            b'd' => 86_400_000,
            _ => return None,
        },
        2 if bytes[at] == b'm' && bytes[at + 1] == b's' => 1,
        _ => return None,
    };
    match value.checked_mul(unit) {
        Some(millis) => Some(Duration::from_millis(millis)),
        None => None,
    }
}

/// A duration as bodies have it.
pub(crate) fn as_text<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&format_duration(*duration))
}

/// Reads what [`as_text`] writes.
pub(crate) fn from_text<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).ok_or_else(|| {
        D::Error::custom(format_args!(
            "invalid duration `{text}`: expected a whole number with a unit, such as 500ms, 2s, 5m, 1h or 7d"
        ))
    })
}

/// The same of one that may be missing.
#[expect(clippy::ref_option, reason = "serde hands over the field")]
pub(crate) fn as_optional_text<S: Serializer>(
    duration: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    duration.map(format_duration).serialize(to)
}

/// Writes a duration the way [`parse_duration`] reads it, in the largest unit that keeps it whole.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    for (unit, size) in [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
    ] {
        if millis >= size && millis.is_multiple_of(size) {
            return format!("{}{unit}", millis / size);
        }
    }
    format!("{millis}ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_alike() {
        for text in ["1ms", "500ms", "2s", "90s", "5m", "1h", "36h", "7d"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        for text in [
            "",
            "5",
            "s",
            "1.5s",
            "5 s",
            "-1s",
            "5min",
            "99999999999999999999s",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn delays_follow_their_shape_and_stop_at_the_cap() {
        let seconds = |policy: RetryPolicy| {
            (1..=4)
                .map(|n| policy.delay_before_jitter(n).as_secs())
                .collect::<Vec<_>>()
        };
        assert_eq!(seconds(RetryPolicy::constant("2s")), [2, 2, 2, 2]);
        assert_eq!(seconds(RetryPolicy::linear("2s")), [2, 4, 6, 8]);
        assert_eq!(seconds(RetryPolicy::exponential("2s")), [2, 4, 8, 16]);
        assert_eq!(
            seconds(RetryPolicy::exponential("2s").cap("5s")),
            [2, 4, 5, 5]
        );
        assert_eq!(
            RetryPolicy::exponential("2s").delay_before_jitter(1000),
            Duration::from_secs(3600)
        );
    }

    #[test]
    fn a_policy_with_a_long_base_is_possible_as_it_is_made() {
        for policy in [
            RetryPolicy::constant("2h"),
            RetryPolicy::linear("61m"),
            RetryPolicy::exponential("7d"),
        ] {
            assert_eq!(policy.fault(), None);
            assert_eq!(policy.delay_before_jitter(1), policy.base);
        }
        let longer = RetryPolicy::linear("2h").cap("5h");
        assert_eq!(longer.delay_before_jitter(3).as_secs(), 5 * 3600);
    }

    #[test]
    fn the_retry_budget_of_a_built_in_step_is_at_least_fifteen_seconds() {
        // Jitter may take half of each delay.
        assert!(RetryPolicy::BUILT_IN.longest_total_delay() / 2 >= Duration::from_secs(15));
    }
}
