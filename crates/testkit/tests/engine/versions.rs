//! Several versions of a type beside each other, and hosts that must not run a task of another one.

use crate::errand::ErrandRequest;
use crate::lost::lost_in;
use counterstep_contracts::operator::WhyCode;
use counterstep_contracts::{Host, TaskStatus, WaitReason};
use counterstep_kernel::Engine;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::operator::{check_deploy, why};
use counterstep_kernel::ports::Find;
use counterstep_kernel::ports::Lost;
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_macros::distributed_task;
use counterstep_reconciler::recovery;
use counterstep_steps::{CancelToken, DistributedTask, Registry, StepResult};
use counterstep_testkit::{Form, Harness, TestTask};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Words(String);

struct Old;

#[distributed_task(name = "Greeting", version = 1, queue = "greetings")]
impl Old {
    type Request = ErrandRequest;
    type Response = Words;

    #[step(1, host = "worker")]
    #[pure]
    async fn greet() -> StepResult<Words> {
        Ok(Words("hello".to_owned()))
    }

    fn respond(greet: &Words) -> Words {
        greet.clone()
    }
}

struct New;

#[distributed_task(name = "Greeting", version = 2, queue = "greetings")]
impl New {
    type Request = ErrandRequest;
    type Response = Words;

    #[step(1, host = "worker")]
    #[pure]
    async fn greet() -> StepResult<Words> {
        Ok(Words("good day".to_owned()))
    }

    fn respond(greet: &Words) -> Words {
        greet.clone()
    }
}

/// The first version, changed without a new number.
struct Changed;

#[distributed_task(name = "Greeting", version = 1, queue = "greetings")]
impl Changed {
    type Request = ErrandRequest;
    type Response = Words;

    #[step(1, host = "worker")]
    #[pure]
    async fn salute() -> StepResult<Words> {
        Ok(Words("salute".to_owned()))
    }

    fn respond(salute: &Words) -> Words {
        salute.clone()
    }
}

/// The first version on another queue, without a new number: the same definition.
struct Moved;

#[distributed_task(name = "Greeting", version = 1, queue = "salutations")]
impl Moved {
    type Request = ErrandRequest;
    type Response = Words;

    #[step(1, host = "worker")]
    #[pure]
    async fn greet() -> StepResult<Words> {
        Ok(Words("hello".to_owned()))
    }

    fn respond(greet: &Words) -> Words {
        greet.clone()
    }
}

fn with<T: DistributedTask>() -> Arc<Registry> {
    Arc::new(Registry::new().with::<T>())
}

async fn submitted() -> TestTask {
    Harness::embedded(Registry::new().with::<Old>())
        .submit(Form::new())
        .await
}

fn other(task: &TestTask, registry: Arc<Registry>) -> Engine {
    Engine::new(
        task.engine.ports.clone(),
        registry,
        (*task.engine.settings).clone(),
        "other",
    )
}

#[test]
fn submissions_go_to_the_newest_version_and_the_old_one_stays() {
    for registry in [
        Registry::new().with::<Old>().with::<New>(),
        Registry::new().with::<New>().with::<Old>(),
    ] {
        assert_eq!(
            registry
                .by_route("greeting")
                .map(|known| known.decl.version),
            Some(2)
        );
        assert!(registry.get("Greeting", 1).is_some());
        assert_eq!(registry.known().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_both_versions_runs_an_old_task_under_the_old_one() {
    let task = submitted().await;
    let both = other(&task, Arc::new(Registry::new().with::<Old>().with::<New>()));
    let older = async || {
        let check = check_deploy(&both.registry, &both.ports.store).await;
        let older = check.expect("an answer").older_versions;
        older
            .into_iter()
            .map(|older| (older.version, older.count))
            .collect::<Vec<_>>()
    };
    assert_eq!(older().await, [(1, 1)], "it is needed");
    let end = turn(&both, Host::Worker, task.id, &CancelToken::new()).await;
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Completed));
    assert_eq!(task.record().await.task.response, Some("hello".into()));
    assert_eq!(older().await, [(1, 0)], "it can go");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_another_version_or_definition_leaves_a_task_to_those_that_know_it() {
    for (registry, code) in [
        (with::<New>(), WhyCode::Version),
        (with::<Changed>(), WhyCode::Definition),
    ] {
        let task = submitted().await;
        let stranger = other(&task, registry);
        let end = turn(&stranger, Host::Worker, task.id, &CancelToken::new()).await;
        assert_eq!(end, TurnEnd::GivenBack);
        let record = task.record().await;
        assert_eq!(
            (record.task.status, record.task.waiting),
            (TaskStatus::Waiting, Some(WaitReason::Version))
        );
        assert!(
            record.steps.iter().all(|row| row.attempts.0 == 0),
            "nothing of it ran"
        );
        let due = |engine: &Engine| Find::Claimable {
            queues: engine.registry.queues(Host::Worker),
            known: engine.registry.known(),
            unclaimed_for: Duration::ZERO,
            after: None,
        };
        let store = &task.engine.ports.store;
        assert_eq!(
            store.find(&due(&stranger), 10).await.expect("an answer"),
            [],
            "it is not shown it again"
        );
        assert_eq!(
            store
                .find(&due(&task.engine), 10)
                .await
                .expect("an answer")
                .len(),
            1
        );

        let reasons = why(&stranger.registry, &record).because;
        assert!(
            reasons.iter().any(|reason| reason.code == code),
            "{reasons:?}"
        );
        let check = check_deploy(&stranger.registry, store)
            .await
            .expect("an answer");
        assert_eq!((check.in_flight, check.stranded.len()), (1, 1));
        assert_eq!(
            (check.stranded[0].count, check.stranded[0].example),
            (1, task.id)
        );

        assert_eq!(
            task.run_to_rest().await,
            TaskStatus::Completed,
            "a host that knows it goes on"
        );
        task.assert_invariants().await;
        let check = check_deploy(&stranger.registry, store)
            .await
            .expect("an answer");
        assert_eq!((check.in_flight, check.stranded.len()), (0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_names_tasks_that_wait_on_a_queue_which_a_build_has_no_more() {
    let task = submitted().await;
    let moved = with::<Moved>();
    assert_eq!(moved.known(), task.engine.registry.known());
    let stranded = async |registry: &Registry| {
        let check = check_deploy(registry, &task.engine.ports.store).await;
        check.expect("an answer").stranded
    };
    let named = stranded(&moved).await;
    assert_eq!(named.len(), 1);
    assert_eq!((named[0].count, named[0].example), (1, task.id));
    let why = &named[0].why;
    assert!(
        why.contains("queue `greetings`") && why.contains("version 2"),
        "{why}"
    );
    assert_eq!(stranded(&task.engine.registry).await, []);
    let both = Registry::new().with::<Old>().with::<New>();
    assert_eq!(
        stranded(&both).await,
        [],
        "it is registered beside the newer one"
    );
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(stranded(&moved).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_task_is_not_taken_back_by_a_program_with_another_definition() {
    let task = submitted().await;
    let stranger = other(&task, with::<Changed>());
    let hangs = Fault::at("greet", FaultKind::Hang);
    let mut settings = (*task.engine.settings).clone();
    settings.faults = vec![hangs.clone()];
    let doomed = Engine::new(
        task.engine.ports.clone(),
        task.engine.registry.clone(),
        settings,
        "doomed",
    );
    lost_in(&doomed, task.id, &hangs).await;
    task.clock.advance_by(task.engine.settings.lease);
    assert!(task.record().await.lease_has_expired());
    let plan = recovery::plan(&stranger, Lost::default(), 10)
        .await
        .expect("a plan");
    let done = recovery::run(&stranger, plan, &CancelToken::new()).await;
    assert_eq!((done.unknown, done.taken_back), (vec![task.id], vec![]));
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
}
