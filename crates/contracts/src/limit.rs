//! Limits of steps as data: how many attempts run at a time, and how many start in a period, over all
//! processes. What a limit does is worked out in the kernel (`limits`).

use crate::forms::{ACTOR, NOTE, PERIOD};
use crate::retry::{format_duration, positive};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How much of something may be used over all processes. A value of neutral data, usable in a
/// `const`:
///
/// ```
/// # use counterstep_contracts::Limit;
/// pub const BANK: Limit = Limit::named("bank").at_once(10).rate(50, "1s");
/// pub const PER_CUSTOMER: Limit = Limit::named("customers").at_once(1).per_label("customer");
/// ```
///
/// An impossible limit is an error of the compiler: the constructors panic during constant
/// evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Limit {
    /// What it limits: all steps of all task types that name it share it.
    pub name: &'static str,
    /// Maximum number of attempts that run at a time; `None`: no maximum.
    pub at_once: Option<u32>,
    /// Maximum number of attempts that start in a period; `None`: no maximum.
    pub rate: Option<Rate>,
    /// Each of these has the whole limit for itself.
    pub scope: LimitScope,
}

/// What has a limit for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", content = "label")]
pub enum LimitScope {
    /// All tasks of all tenants share it.
    All,
    /// The tasks of one tenant share it.
    Tenant,
    /// The tasks of one tenant with the same value of this label share it.
    Label(&'static str),
}

/// Maximum number of starts in a period, evenly spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Number of starts ...
    #[schemars(range(min = 1, max = 1_000_000))]
    pub starts: u32,
    /// ... in each period of this length, as in `"1s"`.
    #[serde(
        serialize_with = "crate::retry::as_text",
        deserialize_with = "crate::retry::from_text"
    )]
    #[schemars(with = "String", regex(pattern = PERIOD))]
    pub per: Duration,
}

/// What is impossible about a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitFault {
    /// The name is empty, longer than 64, or has other characters than letters, digits, `_`, `-`
    /// and `.`.
    BadName,
    /// It limits neither.
    NoLimit,
    /// No attempt could run or start.
    Zero,
    /// More than [`Limit::MOST`] at once, or more starts than that in a period.
    TooMany,
    /// The period has no length, or is longer than a day.
    BadPeriod,
    /// The label has no name.
    NoLabel,
}

impl LimitScope {
    /// As in [`DeclaredLimit::scope`].
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::All => "all".to_owned(),
            Self::Tenant => "tenant".to_owned(),
            Self::Label(label) => format!("label:{label}"),
        }
    }
}

impl Rate {
    /// Reads `50/1s`.
    ///
    /// # Errors
    /// A sentence that says what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || format!("`{text}` is no rate; expected starts and a period, as in 50/1s");
        let (starts, per) = text.split_once('/').ok_or_else(expected)?;
        Ok(Self {
            starts: starts.parse().map_err(|_| expected())?,
            per: crate::retry::parse_duration(per).ok_or_else(expected)?,
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.starts, format_duration(self.per))
    }
}

impl fmt::Display for LimitFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadName => "its name has other than 1 to 64 letters, digits, `_`, `-` and `.`",
            Self::NoLimit => "it limits nothing: say how many attempts at once, or a rate",
            Self::Zero => "no attempt could run: the numbers are at least 1",
            Self::TooMany => "the numbers are at most 1,000,000",
            Self::BadPeriod => "the period of a rate is above 0 and a day or less",
            Self::NoLabel => "its label has no name",
        })
    }
}

impl Limit {
    /// Maximum number of attempts at a time, and of starts in a period.
    pub const MOST: u32 = 1_000_000;

    /// The longest period of a rate.
    pub const LONGEST_PERIOD: Duration = Duration::from_secs(24 * 3600);

    /// Of something outside, such as a service. It limits nothing before
    /// [`at_once`](Self::at_once) or [`rate`](Self::rate) says what.
    #[must_use]
    pub const fn named(name: &'static str) -> Self {
        assert!(
            is_name(name),
            "a limit's name has 1 to 64 letters, digits, `_`, `-` and `.`"
        );
        Self {
            name,
            at_once: None,
            rate: None,
            scope: LimitScope::All,
        }
    }

    /// Maximum number of attempts that run at a time, over all processes; at least 1.
    #[must_use]
    pub const fn at_once(mut self, attempts: u32) -> Self {
        assert!(
            attempts > 0 && attempts <= Self::MOST,
            "a limit lets 1 to 1,000,000 attempts run at a time"
        );
        self.at_once = Some(attempts);
        self
    }

    /// Maximum number of attempts that start in each period, over all processes and evenly spaced, as in
    /// `.rate(50, "1s")`; at least 1, in a day or less.
    #[must_use]
    pub const fn rate(mut self, starts: u32, per: &str) -> Self {
        assert!(
            starts > 0 && starts <= Self::MOST,
            "a rate lets 1 to 1,000,000 attempts start in a period"
        );
        let per = positive(per);
        assert!(
            per.as_secs() <= Self::LONGEST_PERIOD.as_secs(),
            "the period of a rate is a day or less"
        );
        self.rate = Some(Rate { starts, per });
        self
    }

    /// Each tenant has the whole limit for itself.
    #[must_use]
    pub const fn per_tenant(mut self) -> Self {
        self.scope = LimitScope::Tenant;
        self
    }

    /// Each value of this label of the task has the whole limit for itself, in each tenant. Tasks
    /// without the label share one.
    #[must_use]
    pub const fn per_label(mut self, label: &'static str) -> Self {
        assert!(!label.is_empty(), "the label of a limit has a name");
        self.scope = LimitScope::Label(label);
        self
    }

    /// What is impossible about it. The constructors cannot make most of such limits; a struct
    /// literal can, and one that limits nothing.
    #[must_use]
    pub const fn fault(&self) -> Option<LimitFault> {
        if !is_name(self.name) {
            return Some(LimitFault::BadName);
        }
        if let LimitScope::Label(label) = self.scope
            && label.is_empty()
        {
            return Some(LimitFault::NoLabel);
        }
        fault_of(self.at_once, self.rate)
    }
}

/// What is impossible about such values of a limit.
#[must_use]
pub const fn fault_of(at_once: Option<u32>, rate: Option<Rate>) -> Option<LimitFault> {
    if at_once.is_none() && rate.is_none() {
        return Some(LimitFault::NoLimit);
    }
    match at_once {
        Some(0) => return Some(LimitFault::Zero),
        Some(attempts) if attempts > Limit::MOST => return Some(LimitFault::TooMany),
        _ => {}
    }
    if let Some(rate) = rate {
        if rate.starts == 0 {
            return Some(LimitFault::Zero);
        }
        if rate.starts > Limit::MOST {
            return Some(LimitFault::TooMany);
        }
        if rate.per.is_zero() || rate.per.as_secs() > Limit::LONGEST_PERIOD.as_secs() {
            return Some(LimitFault::BadPeriod);
        }
    }
    None
}

/// Body of `PUT /api/limits/{name}`: values in place of those that are declared. At least one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [
    { "required": ["at_once"], "properties": { "at_once": { "type": "integer" } } },
    { "required": ["rate"], "properties": { "rate": { "type": "object" } } },
]))]
pub struct SetLimitRequest {
    /// Maximum number of attempts that run at a time; missing: no maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub at_once: Option<u32>,
    /// Maximum number of attempts that start in a period; missing: no maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Reason, for the audit.
    #[schemars(regex(pattern = NOTE), length(min = 1, max = 4000))]
    pub note: String,
    /// Who decides, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ACTOR), length(min = 1, max = 100))]
    pub actor: Option<String>,
}

/// Body of `POST /api/limits/{name}/reset`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResetLimitRequest {
    /// Reason, for the audit.
    #[schemars(regex(pattern = NOTE), length(min = 1, max = 4000))]
    pub note: String,
    /// Who decides, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = ACTOR), length(min = 1, max = 100))]
    pub actor: Option<String>,
}

/// A limit, what holds of it, and what is in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitView {
    /// Name of the limit.
    pub name: String,
    /// As the task types of this program declare it; missing: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<DeclaredLimit>,
    /// What a person has set in place of it; missing: what is declared holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<LimitSetView>,
    /// What is in use: one for all tasks, or one for each tenant or label value.
    pub uses: Vec<LimitUseView>,
}

/// Values of a limit as they are declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeclaredLimit {
    /// Maximum number of attempts that run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// Maximum number of starts in a period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// What has the whole limit for itself: `all`, `tenant`, `key`, or `label` and the label's name behind a colon.
    pub scope: String,
}

/// Values of a limit that a person has set. Times are RFC 3339 in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitSetView {
    /// Maximum number of attempts that run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// Maximum number of starts in a period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Who has set them.
    pub by: String,
    /// Reason, for the audit.
    pub note: String,
    /// When they were set.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
}

/// What is in use of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitUseView {
    /// The tenant, and behind a slash the label value or the digest of the key; empty where all tasks share the
    /// limit.
    pub of: String,
    /// Number of permits that are held, over all processes.
    pub held: u32,
    /// Number of attempts that wait for a permit.
    pub waiting: u32,
    /// The permits that each process holds, by its id; empty for places, since tasks hold those.
    pub holders: BTreeMap<String, u32>,
}

/// A limit's name becomes a part of keys and routes.
const fn is_name(name: &str) -> bool {
    crate::breaker::is_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Limit = Limit::named("bank").at_once(10).rate(50, "1s");

    #[test]
    fn what_the_constructors_refuse_is_a_fault() {
        assert_eq!(FINE.fault(), None);
        let rate = |starts, per| {
            Some(Rate {
                starts,
                per: Duration::from_secs(per),
            })
        };
        for (limit, fault) in [
            (Limit { name: "", ..FINE }, LimitFault::BadName),
            (
                Limit {
                    name: "the/bank",
                    ..FINE
                },
                LimitFault::BadName,
            ),
            (Limit::named("bank"), LimitFault::NoLimit),
            (
                Limit {
                    at_once: Some(0),
                    ..FINE
                },
                LimitFault::Zero,
            ),
            (
                Limit {
                    at_once: Some(Limit::MOST + 1),
                    ..FINE
                },
                LimitFault::TooMany,
            ),
            (
                Limit {
                    rate: rate(0, 1),
                    ..FINE
                },
                LimitFault::Zero,
            ),
            (
                Limit {
                    rate: rate(1, 0),
                    ..FINE
                },
                LimitFault::BadPeriod,
            ),
            (
                Limit {
                    rate: rate(1, 24 * 3600 + 1),
                    ..FINE
                },
                LimitFault::BadPeriod,
            ),
            (
                Limit {
                    scope: LimitScope::Label(""),
                    ..FINE
                },
                LimitFault::NoLabel,
            ),
        ] {
            assert_eq!(limit.fault(), Some(fault), "{limit:?}");
        }
    }
}
