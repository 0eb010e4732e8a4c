//! Policies as the settings change them: by name, key by key, on top of what was declared.

use crate::breaker::{BreakerFault, BreakerPolicy};
use crate::disable::{AutoDisable, AutoDisableFault};
use crate::retry::{Backoff, PolicyFault, RetryPolicy, parse_duration};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// In settings by task type: all types that have no entry of their own.
pub const OTHERS: &str = "*";

/// All that the settings change: `[policies.NAME]` and `[breakers.NAME]` of the file, by the names
/// of the policies, and `[auto_disable.TYPE]`, by those of the task types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Retry policies.
    pub policies: BTreeMap<String, RetryOverride>,
    /// Breakers.
    pub breakers: BTreeMap<String, BreakerOverride>,
    /// When task types are disabled.
    pub auto_disable: BTreeMap<String, AutoDisableOverride>,
}

/// Changes to a retry policy; what is left out stays as declared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryOverride {
    /// `"constant"`, `"linear"` or `"exponential"`.
    pub backoff: Option<Backoff>,
    /// As `"500ms"`.
    #[serde(deserialize_with = "readable")]
    pub base: Option<Duration>,
    /// As `"30s"`.
    #[serde(deserialize_with = "readable")]
    pub cap: Option<Duration>,
    /// Tries after the first one.
    pub max_retries: Option<u32>,
    /// Whether delays are spread.
    pub jitter: Option<bool>,
    /// As `"2m"`. Said here, it comes before a `timeout` that the step itself declares.
    #[serde(deserialize_with = "readable")]
    pub attempt_timeout: Option<Duration>,
}

/// Changes to a breaker; what is left out stays as declared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BreakerOverride {
    /// Failures that open it.
    pub after_failures: Option<u32>,
    /// As `"1m"`.
    #[serde(deserialize_with = "readable")]
    pub within: Option<Duration>,
    /// As `"30s"`.
    #[serde(deserialize_with = "readable")]
    pub open_for: Option<Duration>,
}

/// What the settings say of the orphans of a type: `[orphans.TYPE]` of the file. What is left out
/// stays as declared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OrphanOverride {
    /// How often all objects are listed, as `"1h"`.
    #[serde(deserialize_with = "readable")]
    pub every: Option<Duration>,
    /// Younger objects are left alone, as `"1d"`; at least for as long as an attempt of the type
    /// may take.
    #[serde(deserialize_with = "readable")]
    pub grace: Option<Duration>,
}

/// How long a task type stays disabled, as the settings say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CooldownOverride {
    /// For this time, above 0; then a probe decides.
    For(Duration),
    /// Until a person enables it.
    UntilEnabled,
}

impl<'de> Deserialize<'de> for CooldownOverride {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "until_enabled" {
            return Ok(Self::UntilEnabled);
        }
        let duration = parse_duration(&text).filter(|duration| !duration.is_zero());
        duration.map(Self::For).ok_or_else(|| {
            serde::de::Error::custom(format_args!(
                "`{}` is no duration above 0: write a whole number and a unit, as 500ms, 30s, 10m, 1h, or `until_enabled`",
                text.escape_debug()
            ))
        })
    }
}

/// Changes to when a task type is disabled; what is left out stays as declared. A type
/// without a declared policy gets one by this.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AutoDisableOverride {
    /// Consecutive failures that disable it; 5 where none is declared.
    pub after_failures: Option<u32>,
    /// As `"10m"`.
    #[serde(deserialize_with = "readable")]
    pub within: Option<Duration>,
    /// As `"5m"` or `"until_enabled"`.
    pub cooldown: Option<CooldownOverride>,
    /// `true`: never.
    pub off: bool,
}

impl AutoDisableOverride {
    /// The policy with these changes.
    ///
    /// # Errors
    /// What would be impossible about it.
    pub fn apply(
        &self,
        declared: Option<AutoDisable>,
    ) -> Result<Option<AutoDisable>, AutoDisableFault> {
        let declared = declared.unwrap_or_else(|| AutoDisable::after_failures(5));
        let policy = AutoDisable {
            after_failures: self.after_failures.unwrap_or(declared.after_failures),
            within: self.within.unwrap_or(declared.within),
            cooldown: match self.cooldown {
                Some(CooldownOverride::For(time)) => Some(time),
                Some(CooldownOverride::UntilEnabled) => None,
                None => declared.cooldown,
            },
        };
        policy
            .fault()
            .map_or(Ok((!self.off).then_some(policy)), Err)
    }
}

impl RetryOverride {
    /// The policy with these changes.
    ///
    /// # Errors
    /// What would be impossible about it.
    pub fn apply(&self, declared: RetryPolicy) -> Result<RetryPolicy, PolicyFault> {
        let policy = RetryPolicy {
            backoff: self.backoff.unwrap_or(declared.backoff),
            base: self.base.unwrap_or(declared.base),
            cap: self.cap.unwrap_or(declared.cap),
            max_retries: self.max_retries.unwrap_or(declared.max_retries),
            jitter: self.jitter.unwrap_or(declared.jitter),
            attempt_timeout: self.attempt_timeout.or(declared.attempt_timeout),
        };
        policy.fault().map_or(Ok(policy), Err)
    }
}

impl BreakerOverride {
    /// The breaker with these changes.
    ///
    /// # Errors
    /// What would be impossible about it.
    pub fn apply(&self, declared: BreakerPolicy) -> Result<BreakerPolicy, BreakerFault> {
        let policy = BreakerPolicy {
            name: declared.name,
            after_failures: self.after_failures.unwrap_or(declared.after_failures),
            within: self.within.unwrap_or(declared.within),
            open_for: self.open_for.unwrap_or(declared.open_for),
        };
        policy.fault().map_or(Ok(policy), Err)
    }
}

/// A duration as it stands in declarations and settings.
fn readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let duration = parse_duration(&text).filter(|duration| !duration.is_zero());
    duration.map(Some).ok_or_else(|| {
        serde::de::Error::custom(format_args!(
            "`{}` is no duration above 0: write a whole number and a unit, as 500ms, 30s, 10m, 1h",
            text.escape_debug()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: RetryPolicy = RetryPolicy::exponential("500ms").max_retries(3).cap("10s");

    fn read(json: &str) -> Result<RetryOverride, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn what_is_left_out_stays_as_declared() {
        assert_eq!(read("{}").unwrap().apply(DECLARED), Ok(DECLARED));
        let changed =
            read(r#"{"max_retries": 7, "backoff": "linear", "attempt_timeout": "2m"}"#).unwrap();
        let expected = RetryPolicy {
            backoff: Backoff::Linear,
            ..DECLARED.max_retries(7).attempt_timeout("2m")
        };
        assert_eq!(changed.apply(DECLARED), Ok(expected));
    }

    #[test]
    fn what_the_compiler_would_refuse_is_refused() {
        let too_low = read(r#"{"cap": "100ms"}"#).unwrap();
        assert_eq!(too_low.apply(DECLARED), Err(PolicyFault::CapBelowBase));
        let too_many = read(r#"{"max_retries": 1001}"#).unwrap();
        assert_eq!(too_many.apply(DECLARED), Err(PolicyFault::TooManyRetries));
        for wrong in [
            r#"{"base": "0s"}"#,
            r#"{"base": "soon"}"#,
            r#"{"backof": "linear"}"#,
            r#"{"max_retries": -1}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
