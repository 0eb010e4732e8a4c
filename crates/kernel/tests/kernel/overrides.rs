//! Policies in effect: what the settings may change by name, and what they may not.

use counterstep_kernel::contracts::declaration::NamedPolicy;
use counterstep_kernel::contracts::{BreakerOverride, Direction, Overrides, RetryOverride, StepDecl, StepKind, StepNo};
use counterstep_kernel::contracts::{Host, OnExhausted, OnUndoFailure, TaskDecl, UndoDecl};
use counterstep_kernel::declare::NamedBreaker;
use counterstep_kernel::policies::{Policies, PolicyError};
use counterstep_kernel::task::{Run, StepCode};
use counterstep_kernel::{BreakerPolicy, Registry, RetryPolicy, StepError, TaskType};
use std::time::Duration;

const ZIP_RETRY: RetryPolicy = RetryPolicy::exponential("500ms").max_retries(3).cap("10s").attempt_timeout("1m");
const PAYMENTS: BreakerPolicy = BreakerPolicy::named("payments");
const HTTP: NamedPolicy = NamedPolicy { name: "HTTP", policy: RetryPolicy::constant("1s") };

const STEP: StepDecl = StepDecl {
    no: StepNo(1),
    name: "zip",
    host: Host::Worker,
    kind: StepKind::Custom,
    inputs: &[],
    output: "()",
    retry: NamedPolicy { name: "policies::ZIP_RETRY", policy: ZIP_RETRY },
    breaker: Some(NamedBreaker { name: "PAYMENTS", policy: PAYMENTS }),
    undo: UndoDecl::Function { name: "unzip" },
    undo_retry: NamedPolicy { name: "undo", policy: RetryPolicy::UNDO },
    on_exhausted: OnExhausted::Compensate,
    timeout: None,
    group: None,
    when: None,
    waits: None,
    fallback: None,
    probe: None,
};

static STEPS: &[StepDecl] = &[
    STEP,
    StepDecl {
        no: StepNo(2),
        name: "tell",
        retry: NamedPolicy { name: "none", policy: RetryPolicy::NONE },
        breaker: Some(NamedBreaker { name: "OWN", policy: BreakerPolicy::per_step() }),
        undo: UndoDecl::Pure,
        timeout: Some(Duration::from_secs(5)),
        ..STEP
    },
    StepDecl { no: StepNo(3), name: "slow", breaker: None, timeout: Some(Duration::from_secs(9)), ..STEP },
];

static DECL: TaskDecl = TaskDecl {
    name: "Zip",
    version: 1,
    queue: "zip",
    timeout: None,
    lease: None,
    max_recoveries: 3,
    cancellable: false,
    on_undo_failure: OnUndoFailure::Stop,
    steps: STEPS,
    request: "()",
    response: "()",
};

fn registry() -> Registry {
    const CODE: StepCode = StepCode {
        run: Run::Custom(|_, _| Box::pin(async { Err(StepError::permanent("not run")) })),
        undo: None,
        when: None,
        fallback: None,
        signal: None,
        probe: None,
        read_output: Ok,
    };
    let task_type = TaskType {
        decl: &DECL,
        steps: &[CODE, CODE, CODE],
        respond: |_| Err(StepError::permanent("not asked")),
        read_request: Ok,
    };
    Registry::new().try_with(task_type).unwrap().with_policy(HTTP)
}

fn retries(name: &str, change: RetryOverride) -> Overrides {
    Overrides { policies: [(name.to_owned(), change)].into(), ..Overrides::default() }
}

fn breakers(name: &str, change: BreakerOverride) -> Overrides {
    Overrides { breakers: [(name.to_owned(), change)].into(), ..Overrides::default() }
}

fn checked(overrides: Overrides) -> Policies {
    Policies::checked(&registry(), overrides).unwrap()
}

#[test]
fn a_policy_is_changed_by_its_path_or_by_the_last_part_of_that() {
    let five = RetryOverride { max_retries: Some(5), ..RetryOverride::default() };
    for name in ["ZIP_RETRY", "policies::ZIP_RETRY"] {
        let policies = checked(retries(name, five));
        assert_eq!(policies.retry_of(&STEPS[0], Direction::Forward), ZIP_RETRY.max_retries(5));
        assert_eq!(policies.retry_of(&STEPS[0], Direction::Undo), RetryPolicy::UNDO);
        assert_eq!(policies.retry_of(&STEPS[1], Direction::Forward), RetryPolicy::NONE);
    }
    let policies = checked(retries("undo", five));
    assert_eq!(policies.retry_of(&STEPS[0], Direction::Undo), RetryPolicy::UNDO.max_retries(5));
    assert_eq!(checked(retries("HTTP", five)).retry(&HTTP), HTTP.policy.max_retries(5));
}

#[test]
fn a_limit_in_the_settings_comes_before_that_of_the_step_and_that_before_its_policys() {
    let limit = |policies: &Policies, at: usize| policies.attempt_timeout(&STEPS[at], Direction::Forward);
    let declared = Policies::default();
    assert_eq!([0, 1, 2].map(|at| limit(&declared, at).unwrap().as_secs()), [60, 5, 9]);
    let set = RetryOverride { attempt_timeout: Some(Duration::from_secs(2)), ..RetryOverride::default() };
    let policies = checked(retries("ZIP_RETRY", set));
    assert_eq!([0, 1, 2].map(|at| limit(&policies, at).unwrap().as_secs()), [2, 5, 2]);
    assert_eq!(policies.attempt_timeout(&STEPS[0], Direction::Undo), None);
}

#[test]
fn a_breaker_is_changed_by_its_dependency_or_by_its_constant_where_it_has_none() {
    let change = BreakerOverride { after_failures: Some(9), ..BreakerOverride::default() };
    let policies = checked(breakers("payments", change));
    assert_eq!(policies.breaker_of(&STEPS[0]), Some(PAYMENTS.after_failures(9)));
    assert_eq!(policies.breaker_of(&STEPS[1]), Some(BreakerPolicy::per_step()));
    assert_eq!(policies.breaker_of(&STEPS[2]), None);
    let own = checked(breakers("OWN", change)).breaker_of(&STEPS[1]);
    assert_eq!(own, Some(BreakerPolicy::per_step().after_failures(9)));
}

#[test]
fn an_unknown_name_is_refused_with_the_known_ones() {
    let error = Policies::checked(&registry(), retries("ZIP_RETRIES", RetryOverride::default())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "setting `policies.ZIP_RETRIES`: no step names such a policy: known are HTTP, policies::ZIP_RETRY, undo"
    );
    // To give retries to a step whose author wants none is not for the settings.
    let none = Policies::checked(&registry(), retries("none", RetryOverride::default()));
    assert!(matches!(none, Err(PolicyError::Unknown { .. })));
    let error = Policies::checked(&registry(), breakers("PAYMENTS", BreakerOverride::default())).unwrap_err();
    assert_eq!(error.to_string(), "setting `breakers.PAYMENTS`: no step names such a policy: known are OWN, payments");
    let error = Policies::checked(&Registry::new(), breakers("x", BreakerOverride::default())).unwrap_err();
    assert!(error.to_string().ends_with("these task types have none"), "{error}");
}

#[test]
fn what_could_not_be_declared_cannot_be_set() {
    let low = RetryOverride { cap: Some(Duration::from_millis(1)), ..RetryOverride::default() };
    let error = Policies::checked(&registry(), retries("ZIP_RETRY", low)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "setting `policies.ZIP_RETRY`: `cap` is below `base`: raise the one or lower the other"
    );
    let zero = BreakerOverride { after_failures: Some(0), ..BreakerOverride::default() };
    let error = Policies::checked(&registry(), breakers("payments", zero)).unwrap_err();
    assert!(matches!(error, PolicyError::Impossible { .. }), "{error}");
}

#[test]
fn what_is_shown_has_the_declared_value_and_the_one_in_effect() {
    let hash = DECL.definition_hash();
    let five = RetryOverride { max_retries: Some(5), ..RetryOverride::default() };
    let policies = checked(retries("ZIP_RETRY", five));
    let shown = policies.shown(&DECL).unwrap();
    let step = &shown["steps"][0];
    assert_eq!(
        (&step["retry"]["policy"]["max_retries"], &step["retry"]["effective"]["max_retries"]),
        (&3.into(), &5.into())
    );
    assert!(shown["steps"][1]["retry"].get("effective").is_none() && step["breaker"].get("effective").is_none());
    assert_eq!(DECL.definition_hash(), hash);
    assert_eq!(Policies::default().shown(&DECL).unwrap(), serde_json::to_value(DECL).unwrap());
}
