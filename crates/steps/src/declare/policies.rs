//! Policies and limits that are checked while a declaration compiles: what their constructors would
//! refuse may have been written as a struct literal.

use counterstep_contracts::breaker::BreakerFault;
use counterstep_contracts::disable::AutoDisableFault;
use counterstep_contracts::limit::{LimitFault, LimitScope};
use counterstep_contracts::retry::PolicyFault;
use counterstep_contracts::{AutoDisable, BreakerPolicy, Limit, RetryPolicy};

/// Refuses, while compiling, a policy that its constructors would refuse but that was written as a
/// struct literal.
#[must_use]
#[track_caller]
pub const fn policy(policy: RetryPolicy) -> RetryPolicy {
    match policy.fault() {
        None => policy,
        Some(PolicyFault::TooManyRetries) => panic!(
            "CS0045: impossible retry policy: max_retries is at most 1000; a longer series is a schedule, not a retry"
        ),
        Some(PolicyFault::NoBase) => panic!(
            "CS0045: impossible retry policy: its base delay is zero; build it with RetryPolicy::constant, linear or \
             exponential"
        ),
        Some(PolicyFault::CapBelowBase) => {
            panic!(
                "CS0045: impossible retry policy: its cap is below its base delay; raise the cap or lower the base"
            )
        }
        Some(PolicyFault::NoTime) => {
            panic!(
                "CS0045: impossible retry policy: its attempts get no time at all; give attempt_timeout a length"
            )
        }
    }
}

/// Refuses, while compiling, a policy that its constructors would refuse but that was written as a
/// struct literal.
#[must_use]
#[track_caller]
pub const fn auto_disable(policy: AutoDisable) -> AutoDisable {
    match policy.fault() {
        None => policy,
        Some(AutoDisableFault::NoFailures) => panic!(
            "CS0059: impossible auto_disable: the type would be disabled before the first failure; expected \
             after_failures(1) or more"
        ),
        Some(AutoDisableFault::NoWindow) => panic!(
            "CS0059: impossible auto_disable: its window has no length; say with within(\"10m\") for how long failures \
             count"
        ),
        Some(AutoDisableFault::NoCooldown) => panic!(
            "CS0059: impossible auto_disable: the type would be enabled at once; say with cooldown(\"5m\") for how long \
             it is disabled, or with until_enabled() that a person enables it"
        ),
    }
}

/// Refuses, while compiling, a breaker that its constructors would refuse but that was written as a
/// struct literal.
#[must_use]
#[track_caller]
pub const fn breaker(breaker: BreakerPolicy) -> BreakerPolicy {
    match breaker.fault() {
        None => breaker,
        Some(BreakerFault::BadName) => panic!(
            "CS0053: impossible breaker: its name is no name; expected 1 to 64 letters, digits, `_`, `-` and `.`"
        ),
        Some(BreakerFault::NoFailures) => panic!(
            "CS0053: impossible breaker: it would be open before the first failure; expected after_failures(1) or more"
        ),
        Some(BreakerFault::NoWindow) => panic!(
            "CS0053: impossible breaker: its window has no length; say with within(\"1m\") for how long failures count"
        ),
        Some(BreakerFault::NeverOpen) => {
            panic!(
                "CS0053: impossible breaker: it would never be open; say with open_for(\"30s\") for how long it is"
            )
        }
    }
}

/// Refuses, while compiling, a limit that its constructors would refuse, that limits nothing, or whose
/// label is none of the type's.
#[must_use]
#[track_caller]
pub const fn limit(limit: Limit, labels: &[&str]) -> Limit {
    if let LimitScope::Label(label) = limit.scope
        && !label.is_empty()
        && !is_among(label, labels)
    {
        panic!(
            "CS0064: impossible limit: it is one per value of a label that the task type does not have; declare the \
             label with `label`, or leave `per_label` out"
        );
    }
    match limit.fault() {
        None => limit,
        Some(LimitFault::BadName) => panic!(
            "CS0064: impossible limit: its name is no name; expected 1 to 64 letters, digits, `_`, `-` and `.`"
        ),
        Some(LimitFault::NoLimit) => panic!(
            "CS0064: impossible limit: it limits nothing; say at_once(10), rate(50, \"1s\"), or both"
        ),
        Some(LimitFault::Zero) => panic!(
            "CS0064: impossible limit: no attempt could start; expected at_once(1) or more, and rate(1, ..) or more"
        ),
        Some(LimitFault::TooMany) => {
            panic!("CS0064: impossible limit: it is higher than 1,000,000; leave it out")
        }
        Some(LimitFault::BadPeriod) => panic!(
            "CS0064: impossible limit: the period of a rate is longer than nothing and a day or less"
        ),
        Some(LimitFault::NoLabel) => {
            panic!("CS0064: impossible limit: its label has no name; say per_label(\"customer\")")
        }
    }
}

const fn is_among(text: &str, texts: &[&str]) -> bool {
    let mut at = 0;
    while at < texts.len() {
        if is_same(text.as_bytes(), texts[at].as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}
