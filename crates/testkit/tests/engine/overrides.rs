//! Policies in effect: what the settings may change by name, and what they may not.

use crate::errand::only;
use counterstep_contracts::declaration::NamedPolicy;
use counterstep_contracts::{
    AutoDisable, AutoDisableOverride, BreakerOverride, CooldownOverride, Direction, Overrides,
    RetryOverride, StepDecl,
};
use counterstep_macros::distributed_task;
use counterstep_steps::policies::{Policies, PolicyError};
use counterstep_steps::{
    BreakerPolicy, DistributedTask, Registry, RetryPolicy, StepResult, UndoResult,
};
use std::time::Duration;

mod policies {
    use super::RetryPolicy;
    pub(super) const ZIP_RETRY: RetryPolicy = RetryPolicy::exponential("500ms")
        .max_retries(3)
        .cap("10s")
        .attempt_timeout("1m");
}
use policies::ZIP_RETRY;

const PAYMENTS: BreakerPolicy = BreakerPolicy::named("payments");
const OWN: BreakerPolicy = BreakerPolicy::per_step();
const HTTP: NamedPolicy = NamedPolicy {
    name: "HTTP",
    policy: RetryPolicy::constant("1s"),
};

struct Zip;

#[distributed_task(name = "Zip")]
impl Zip {
    type Request = String;
    type Response = u8;

    #[step(1, host = "worker", retry = policies::ZIP_RETRY, breaker = PAYMENTS, undo = unzip)]
    async fn zip() -> StepResult<u8> {
        Ok(1)
    }

    async fn unzip(_out: Option<u8>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", timeout = "5s", breaker = OWN)]
    #[pure]
    async fn tell() -> StepResult<u16> {
        Ok(2)
    }

    #[step(3, host = "worker", retry = policies::ZIP_RETRY, timeout = "9s", no_undo = "test")]
    async fn slow() -> StepResult<u32> {
        Ok(3)
    }

    fn respond(zip: &u8) -> u8 {
        *zip
    }
}

fn step(at: usize) -> &'static StepDecl {
    &Zip::task_type().decl.steps[at]
}

fn registry() -> Registry {
    only::<Zip>().with_policy(HTTP)
}

fn retries(name: &str, change: RetryOverride) -> Overrides {
    Overrides {
        policies: [(name.to_owned(), change)].into(),
        ..Overrides::default()
    }
}

fn breakers(name: &str, change: BreakerOverride) -> Overrides {
    Overrides {
        breakers: [(name.to_owned(), change)].into(),
        ..Overrides::default()
    }
}

fn checked(overrides: Overrides) -> Policies {
    Policies::checked(&registry(), overrides).unwrap()
}

#[test]
fn a_policy_is_changed_by_its_path_or_by_the_last_part_of_that() {
    let five = RetryOverride {
        max_retries: Some(5),
        ..RetryOverride::default()
    };
    for name in ["ZIP_RETRY", "policies::ZIP_RETRY"] {
        let policies = checked(retries(name, five));
        assert_eq!(
            policies.retry_of(step(0), Direction::Forward),
            ZIP_RETRY.max_retries(5)
        );
        assert_eq!(
            policies.retry_of(step(0), Direction::Undo),
            RetryPolicy::UNDO
        );
        assert_eq!(
            policies.retry_of(step(1), Direction::Forward),
            RetryPolicy::NONE
        );
    }
    let policies = checked(retries("undo", five));
    assert_eq!(
        policies.retry_of(step(0), Direction::Undo),
        RetryPolicy::UNDO.max_retries(5)
    );
    assert_eq!(
        checked(retries("HTTP", five)).retry(&HTTP),
        HTTP.policy.max_retries(5)
    );
}

#[test]
fn a_limit_in_the_settings_comes_before_that_of_the_step_and_that_before_its_policys() {
    let limit =
        |policies: &Policies, at: usize| policies.attempt_timeout(step(at), Direction::Forward);
    let declared = Policies::default();
    assert_eq!(
        [0, 1, 2].map(|at| limit(&declared, at).unwrap().as_secs()),
        [60, 5, 9]
    );
    let set = RetryOverride {
        attempt_timeout: Some(Duration::from_secs(2)),
        ..RetryOverride::default()
    };
    let policies = checked(retries("ZIP_RETRY", set));
    assert_eq!(
        [0, 1, 2].map(|at| limit(&policies, at).unwrap().as_secs()),
        [2, 5, 2]
    );
    assert_eq!(policies.attempt_timeout(step(0), Direction::Undo), None);
}

#[test]
fn a_breaker_is_changed_by_its_dependency_or_by_its_constant_where_it_has_none() {
    let change = BreakerOverride {
        after_failures: Some(9),
        ..BreakerOverride::default()
    };
    let policies = checked(breakers("payments", change));
    assert_eq!(
        policies.breaker_of(step(0)),
        Some(PAYMENTS.after_failures(9))
    );
    assert_eq!(
        policies.breaker_of(step(1)),
        Some(BreakerPolicy::per_step())
    );
    assert_eq!(policies.breaker_of(step(2)), None);
    let own = checked(breakers("OWN", change)).breaker_of(step(1));
    assert_eq!(own, Some(BreakerPolicy::per_step().after_failures(9)));
}

#[test]
fn an_unknown_name_is_refused_with_the_known_ones() {
    let error = Policies::checked(
        &registry(),
        retries("ZIP_RETRIES", RetryOverride::default()),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "setting `policies.ZIP_RETRIES`: nothing declared has this name: known are HTTP, policies::ZIP_RETRY, undo"
    );
    // To give retries to a step whose author wants none is not for the settings.
    let none = Policies::checked(&registry(), retries("none", RetryOverride::default()));
    assert!(matches!(none, Err(PolicyError::Unknown { .. })));
    let error = Policies::checked(
        &registry(),
        breakers("PAYMENTS", BreakerOverride::default()),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "setting `breakers.PAYMENTS`: nothing declared has this name: known are OWN, payments"
    );
    let error =
        Policies::checked(&Registry::new(), breakers("x", BreakerOverride::default())).unwrap_err();
    assert!(
        error.to_string().ends_with("these task types have none"),
        "{error}"
    );
}

#[test]
fn what_could_not_be_declared_cannot_be_set() {
    let low = RetryOverride {
        cap: Some(Duration::from_millis(1)),
        ..RetryOverride::default()
    };
    let error = Policies::checked(&registry(), retries("ZIP_RETRY", low)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "setting `policies.ZIP_RETRY`: `cap` is below `base`: raise the one or lower the other"
    );
    let zero = BreakerOverride {
        after_failures: Some(0),
        ..BreakerOverride::default()
    };
    let error = Policies::checked(&registry(), breakers("payments", zero)).unwrap_err();
    assert!(matches!(error, PolicyError::Impossible { .. }), "{error}");
}

#[test]
fn when_a_type_is_disabled_is_set_by_its_name() {
    let name = registry().iter().next().expect("a type").decl.name;
    let set = |name: &str, change| {
        let auto_disable = [(name.to_owned(), change)].into();
        Policies::checked(
            &registry(),
            Overrides {
                auto_disable,
                ..Overrides::default()
            },
        )
    };
    let decl = registry().iter().next().expect("a type").decl;
    assert_eq!(
        Policies::default().auto_disable_of(decl),
        None,
        "it declares nothing"
    );
    let three = AutoDisableOverride {
        after_failures: Some(3),
        ..AutoDisableOverride::default()
    };
    let policies = set(name, three).expect("policies");
    assert_eq!(
        policies.auto_disable_of(decl),
        Some(AutoDisable::after_failures(3))
    );
    assert_eq!(
        policies.shown(decl).expect("JSON")["auto_disable"]["declared"],
        serde_json::Value::Null
    );
    let by_hand = AutoDisableOverride {
        cooldown: Some(CooldownOverride::UntilEnabled),
        ..three
    };
    let policies = set(name, by_hand).expect("policies");
    assert_eq!(
        policies.auto_disable_of(decl),
        Some(AutoDisable::after_failures(3).until_enabled())
    );
    assert_eq!(
        policies.shown(decl).expect("JSON")["auto_disable"]["effective"]["cooldown"],
        serde_json::Value::Null
    );
    let off = AutoDisableOverride { off: true, ..three };
    assert_eq!(
        set(name, off).expect("policies").auto_disable_of(decl),
        None
    );
    let error = set("Nothing", three).unwrap_err().to_string();
    assert!(
        error.contains("auto_disable.Nothing") && error.contains(name),
        "{error}"
    );
    let error = set(
        name,
        AutoDisableOverride {
            after_failures: Some(0),
            ..three
        },
    )
    .unwrap_err();
    assert!(
        matches!(
            error,
            PolicyError::Impossible {
                table: "auto_disable",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn what_is_shown_has_the_declared_value_and_the_one_in_effect() {
    let decl = Zip::task_type().decl;
    let hash = decl.definition_hash();
    let five = RetryOverride {
        max_retries: Some(5),
        ..RetryOverride::default()
    };
    let policies = checked(retries("ZIP_RETRY", five));
    let shown = policies.shown(decl).unwrap();
    let step = &shown["steps"][0];
    assert_eq!(
        (
            &step["retry"]["policy"]["max_retries"],
            &step["retry"]["effective"]["max_retries"]
        ),
        (&3.into(), &5.into())
    );
    assert!(
        shown["steps"][1]["retry"].get("effective").is_none()
            && step["breaker"].get("effective").is_none()
    );
    assert_eq!(decl.definition_hash(), hash);
    assert_eq!(
        Policies::default().shown(decl).unwrap(),
        serde_json::to_value(decl).unwrap()
    );
}
