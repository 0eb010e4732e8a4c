//! Auto-disable as data: after how many consecutive failed tasks a type takes no more, and what is
//! told about it. What it leads to is worked out in `counterstep_kernel::admission::disable`.

use crate::forms::{ACTOR, NOTE};
use crate::ids::TaskId;
use crate::retry::positive;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When a task type stops taking submissions. A value of neutral data, usable in a `const`:
///
/// ```
/// # use counterstep_contracts::AutoDisable;
/// pub const ZIP_FAILURES: AutoDisable = AutoDisable::after_failures(5).within("10m").cooldown("5m");
/// ```
///
/// Tasks that were accepted go on, and are undone where they must be. An impossible policy is an
/// error of the compiler: the constructors panic during constant evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AutoDisable {
    /// Disables the type at this number of consecutive tasks that ended as Failed or were parked ...
    pub after_failures: u32,
    /// ... in the time before now of this length. A task that completes resets the count.
    #[serde(serialize_with = "crate::retry::as_text")]
    #[schemars(with = "String")]
    pub within: Duration,
    /// How long it stays disabled. Then a single task is accepted as a probe, and its outcome decides.
    /// `None`: disabled until a person enables it, without a probe.
    #[serde(serialize_with = "crate::retry::as_optional_text")]
    #[schemars(with = "Option<String>")]
    pub cooldown: Option<Duration>,
}

/// What is impossible about the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AutoDisableFault {
    /// It would disable the type before the first failure.
    NoFailures,
    /// The window has no length.
    NoWindow,
    /// The type would be enabled at once.
    NoCooldown,
}

impl AutoDisable {
    /// Disables at `failures` consecutive failures, at least 1; within 10 minutes and for 5 minutes by
    /// default.
    #[must_use]
    pub const fn after_failures(failures: u32) -> Self {
        assert!(failures > 0, "a type is disabled after 1 failure or more");
        Self {
            after_failures: failures,
            within: Duration::from_secs(600),
            cooldown: Some(Duration::from_secs(300)),
        }
    }

    /// The length of the window in which failures are counted, as in `"10m"`.
    #[must_use]
    pub const fn within(mut self, window: &str) -> Self {
        self.within = positive(window);
        self
    }

    /// How long the type is disabled before a probe, as in `"5m"`.
    #[must_use]
    pub const fn cooldown(mut self, time: &str) -> Self {
        self.cooldown = Some(positive(time));
        self
    }

    /// The type stays disabled until a person enables it: no cooldown, no probe.
    #[must_use]
    pub const fn until_enabled(mut self) -> Self {
        self.cooldown = None;
        self
    }

    /// What is impossible about it. The constructors cannot make such a policy; a struct literal,
    /// or settings, can.
    #[must_use]
    pub const fn fault(&self) -> Option<AutoDisableFault> {
        if self.after_failures == 0 {
            Some(AutoDisableFault::NoFailures)
        } else if self.within.is_zero() {
            Some(AutoDisableFault::NoWindow)
        } else {
            match self.cooldown {
                Some(cooldown) if cooldown.is_zero() => Some(AutoDisableFault::NoCooldown),
                Some(_) | None => None,
            }
        }
    }
}

/// Body of `POST /api/task-types/{type}/disable` and `/enable`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchRequest {
    /// Why: what clients are told whose submissions are refused.
    #[schemars(regex(pattern = NOTE), length(min = 1, max = 4000))]
    pub note: String,
    /// Who decides, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ACTOR), length(min = 1, max = 100))]
    pub actor: Option<String>,
}

/// Whether a task type takes submissions. Times are RFC 3339 in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchView {
    /// The type's declared name.
    #[serde(rename = "type")]
    pub task_type: String,
    /// Since when it takes none; missing: it takes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub disabled_since: Option<String>,
    /// Why; of an enabled type, why it was enabled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who disabled it, or enabled it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When the next submission is taken as a probe; missing on a disabled type: a person has to
    /// enable it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub probe_from: Option<String>,
    /// The probe that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<TaskId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_constructors_refuse_is_a_fault() {
        const FINE: AutoDisable = AutoDisable::after_failures(1).within("1ms").cooldown("7d");
        assert_eq!((FINE.fault(), FINE.until_enabled().fault()), (None, None));
        let zero = Duration::ZERO;
        for (policy, fault) in [
            (
                AutoDisable {
                    after_failures: 0,
                    ..FINE
                },
                AutoDisableFault::NoFailures,
            ),
            (
                AutoDisable {
                    within: zero,
                    ..FINE
                },
                AutoDisableFault::NoWindow,
            ),
            (
                AutoDisable {
                    cooldown: Some(zero),
                    ..FINE
                },
                AutoDisableFault::NoCooldown,
            ),
        ] {
            assert_eq!(policy.fault(), Some(fault));
        }
    }
}
