//! The policies in effect in a process: those declared, changed by name as the settings say.
//! Checked once, at the start; no step reads the settings by itself.

use crate::task::Registry;
use counterstep_contracts::breaker::BreakerFault;
use counterstep_contracts::declaration::{NamedBreaker, NamedPolicy};
use counterstep_contracts::disable::AutoDisableFault;
use counterstep_contracts::retry::PolicyFault;
use counterstep_contracts::{
    AutoDisable, BreakerPolicy, Direction, Overrides, RetryPolicy, StepDecl, TaskDecl,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// What a declaration without a policy is said to name. To change it would give steps retries whose
/// authors want none.
const ONE_TRY: &str = "none";

/// The settings change a policy that no declaration names, or make one impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Nothing has this name.
    #[error(
        "setting `{table}.{name}`: nothing declared has this name: {}",
        known_are(known)
    )]
    Unknown {
        /// `policies`, `breakers` or `auto_disable`.
        table: &'static str,
        /// As written in the settings.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// It could not be declared like this either.
    #[error("setting `{table}.{name}`: {why}")]
    Impossible {
        /// `policies`, `breakers` or `auto_disable`.
        table: &'static str,
        /// As written in the settings.
        name: String,
        /// What is wrong, what is expected.
        why: &'static str,
    },
}

fn known_are(known: &[String]) -> String {
    if known.is_empty() {
        "these task types have none".to_owned()
    } else {
        format!("known are {}", known.join(", "))
    }
}

/// The policies in effect. The default: as declared.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    overrides: Overrides,
}

impl Policies {
    /// Checks the settings against everything that the registry's types, and the registry itself,
    /// name.
    ///
    /// # Errors
    /// [`PolicyError`], for the first that cannot be.
    pub fn checked(registry: &Registry, overrides: Overrides) -> Result<Self, PolicyError> {
        for (name, change) in &overrides.policies {
            let mut any = false;
            for declared in retries(registry).filter(|declared| is_named(declared.name, name)) {
                any = true;
                change
                    .apply(declared.policy)
                    .map_err(|fault| PolicyError::Impossible {
                        table: "policies",
                        name: name.clone(),
                        why: of_retry(fault),
                    })?;
            }
            if !any {
                let known = retries(registry)
                    .map(|declared| declared.name.to_owned())
                    .collect::<BTreeSet<_>>();
                let known = known.into_iter().collect();
                return Err(PolicyError::Unknown {
                    table: "policies",
                    name: name.clone(),
                    known,
                });
            }
        }
        for (name, change) in &overrides.breakers {
            let mut any = false;
            for declared in breakers(registry).filter(|declared| is_named(handle(declared), name)) {
                any = true;
                change
                    .apply(declared.policy)
                    .map_err(|fault| PolicyError::Impossible {
                        table: "breakers",
                        name: name.clone(),
                        why: of_breaker(fault),
                    })?;
            }
            if !any {
                let known = breakers(registry)
                    .map(|declared| handle(&declared).to_owned())
                    .collect::<BTreeSet<_>>();
                let known = known.into_iter().collect();
                return Err(PolicyError::Unknown {
                    table: "breakers",
                    name: name.clone(),
                    known,
                });
            }
        }
        for (name, change) in &overrides.auto_disable {
            let declared = registry
                .iter()
                .filter(|known| known.decl.name == name)
                .map(|known| known.decl.auto_disable);
            let mut declared = declared.peekable();
            if declared.peek().is_none() {
                let known = registry
                    .iter()
                    .map(|known| known.decl.name.to_owned())
                    .collect::<BTreeSet<_>>();
                let known = known.into_iter().collect();
                return Err(PolicyError::Unknown {
                    table: "auto_disable",
                    name: name.clone(),
                    known,
                });
            }
            for declared in declared {
                change
                    .apply(declared)
                    .map_err(|fault| PolicyError::Impossible {
                        table: "auto_disable",
                        name: name.clone(),
                        why: of_auto_disable(fault),
                    })?;
            }
        }
        Ok(Self { overrides })
    }

    /// The policy in effect for one that was declared.
    #[must_use]
    pub fn retry(&self, declared: &NamedPolicy) -> RetryPolicy {
        // Checked at the start: what cannot be applied was refused then.
        by_name(&self.overrides.policies, declared.name)
            .filter(|_| declared.name != ONE_TRY)
            .and_then(|change| change.apply(declared.policy).ok())
            .unwrap_or(declared.policy)
    }

    /// How a step, or its undo, is retried.
    #[must_use]
    pub fn retry_of(&self, step: &StepDecl, direction: Direction) -> RetryPolicy {
        match direction {
            Direction::Forward => self.retry(&step.retry),
            Direction::Undo => self.retry(&step.undo_retry),
        }
    }

    /// How a step's probe is retried.
    #[must_use]
    pub fn probe_retry_of(&self, step: &StepDecl) -> RetryPolicy {
        step.probe_retry
            .map_or(RetryPolicy::BUILT_IN, |declared| self.retry(&declared))
    }

    /// Limit of one try of a probe, where it has a policy of its own that says one.
    #[must_use]
    pub fn probe_timeout(&self, step: &StepDecl) -> Option<Duration> {
        let own = step.probe_retry.filter(|own| own.name != step.retry.name)?;
        self.retry(&own).attempt_timeout
    }

    /// Limit of one attempt, where one is declared or set: what the settings say of the policy,
    /// else the step's own, else its policy's. The step's own limit says how long its work may
    /// take, and nothing about taking it back.
    #[must_use]
    pub fn attempt_timeout(&self, step: &StepDecl, direction: Direction) -> Option<Duration> {
        let declared = match direction {
            Direction::Forward => &step.retry,
            Direction::Undo => return self.retry(&step.undo_retry).attempt_timeout,
        };
        by_name(&self.overrides.policies, declared.name)
            .filter(|_| declared.name != ONE_TRY)
            .and_then(|change| change.attempt_timeout)
            .or(step.timeout)
            .or(declared.policy.attempt_timeout)
    }

    /// The breaker of a step.
    #[must_use]
    pub fn breaker_of(&self, step: &StepDecl) -> Option<BreakerPolicy> {
        let declared = step.breaker?;
        let change = by_name(&self.overrides.breakers, handle(&declared));
        Some(
            change
                .and_then(|change| change.apply(declared.policy).ok())
                .unwrap_or(declared.policy),
        )
    }

    /// When failures make a type take no more submissions; `None`: never.
    #[must_use]
    pub fn auto_disable_of(&self, decl: &TaskDecl) -> Option<AutoDisable> {
        match self.overrides.auto_disable.get(decl.name) {
            Some(change) => change.apply(decl.auto_disable).unwrap_or(decl.auto_disable),
            None => decl.auto_disable,
        }
    }

    /// A declaration as data, with `effective` beside each policy that the settings have changed.
    ///
    /// # Errors
    /// None that a declaration could cause.
    pub fn shown(&self, decl: &TaskDecl) -> Result<Value, serde_json::Error> {
        let mut shown = serde_json::to_value(decl)?;
        let steps = shown
            .get_mut("steps")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        for (step, shown) in decl.steps.iter().zip(steps) {
            let mut add = |field: &str, effective: Value| {
                if let Some(Value::Object(policy)) = shown.get_mut(field) {
                    policy.insert("effective".to_owned(), effective);
                }
            };
            let probe = step.probe_retry.as_ref();
            let probe = probe.map(|declared| ("probe_retry", declared));
            let always = [("retry", &step.retry), ("undo_retry", &step.undo_retry)];
            for (field, declared) in always.into_iter().chain(probe) {
                let effective = self.retry(declared);
                if effective != declared.policy {
                    add(field, json!(effective));
                }
            }
            let declared = step.breaker.map(|breaker| breaker.policy);
            if let Some(effective) = self
                .breaker_of(step)
                .filter(|effective| Some(*effective) != declared)
            {
                add("breaker", json!(effective));
            }
        }
        let (declared, effective) = (decl.auto_disable, self.auto_disable_of(decl));
        if let Some(fields) = shown.as_object_mut().filter(|_| effective != declared) {
            fields.insert(
                "auto_disable".to_owned(),
                json!({ "declared": declared, "effective": effective }),
            );
        }
        Ok(shown)
    }
}

/// By its path as written, else by the last part of that.
fn by_name<'a, T>(
    changes: &'a std::collections::BTreeMap<String, T>,
    declared: &str,
) -> Option<&'a T> {
    changes
        .get(declared)
        .or_else(|| changes.get(last_part(declared)))
}

fn is_named(declared: &str, name: &str) -> bool {
    declared == name || last_part(declared) == name
}

fn last_part(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// What a breaker is called in the settings: its dependency, or the constant where it has none.
fn handle(breaker: &NamedBreaker) -> &str {
    breaker.policy.name.unwrap_or(breaker.name)
}

/// Every retry policy that can be changed by its name.
fn retries(registry: &Registry) -> impl Iterator<Item = NamedPolicy> {
    let steps = registry.iter().flat_map(|task_type| task_type.decl.steps);
    let declared = steps.flat_map(|step| {
        let undo = step.undo.has_effects().then_some(step.undo_retry);
        [Some(step.retry), undo, step.probe_retry]
            .into_iter()
            .flatten()
    });
    declared
        .chain(registry.policies().copied())
        .filter(|declared| declared.name != ONE_TRY)
}

fn breakers(registry: &Registry) -> impl Iterator<Item = NamedBreaker> {
    registry
        .iter()
        .flat_map(|task_type| task_type.decl.steps)
        .filter_map(|step| step.breaker)
}

const fn of_retry(fault: PolicyFault) -> &'static str {
    match fault {
        PolicyFault::TooManyRetries => {
            "`max_retries` is at most 1000: a longer series is a schedule, not a retry"
        }
        PolicyFault::NoBase => "`base` is zero: it is the first delay, above 0",
        PolicyFault::CapBelowBase => "`cap` is below `base`: raise the one or lower the other",
        PolicyFault::NoTime => "`attempt_timeout` is zero: it is the limit of one attempt, above 0",
    }
}

const fn of_breaker(fault: BreakerFault) -> &'static str {
    match fault {
        BreakerFault::BadName => {
            "its name has other characters than letters, digits, `_`, `-` and `.`"
        }
        BreakerFault::NoFailures => {
            "`after_failures` is zero: a breaker opens after 1 failure or more"
        }
        BreakerFault::NoWindow => {
            "`within` is zero: it is the window in which failures are counted, above 0"
        }
        BreakerFault::NeverOpen => {
            "`open_for` is zero: it is how long the breaker stays open, above 0"
        }
    }
}

const fn of_auto_disable(fault: AutoDisableFault) -> &'static str {
    match fault {
        AutoDisableFault::NoFailures => {
            "`after_failures` is zero: a type is disabled after 1 failure or more"
        }
        AutoDisableFault::NoWindow => {
            "`within` is zero: it is the window in which failures are counted, above 0"
        }
        AutoDisableFault::NoCooldown => {
            "`cooldown` is zero: it is how long the type is disabled, above 0"
        }
    }
}
