//! Tasks that are counted by a key: no more of them are under way than may be, from their start to their rest,
//! and what becomes of a further one.

use crate::errand::only;
use crate::limits::{inside, service};
use counterstep_contracts::operator::WhyCode;
use counterstep_contracts::{Host, StepStatus, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::admission::limits::{LimitError, NewLimit, limits, set_limit};
use counterstep_kernel::admission::{SettingError, SettingOf};
use counterstep_kernel::client::{SubmitError, cancel};
use counterstep_kernel::operator::{Retrial, retry, surroundings, why_among};
use counterstep_kernel::ports::{ChildQuery, Lost};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_macros::distributed_task;
use counterstep_reconciler::{places, recovery};
use counterstep_steps::{
    AwaitTask, CancelToken, Registry, Sleep, StepError, StepResult, UndoResult,
};
use counterstep_testkit::many_tasks::{Site, eventually};
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Import {
    /// The called service.
    pub(crate) service: String,
    pub(crate) customer: String,
    /// How long it sleeps before it calls.
    pause: Option<String>,
    /// It is parked in place of a call.
    parks: bool,
}

struct ImportInTurn;

#[distributed_task(
    name = "ImportInTurn",
    timeout = "1h",
    key = "req.customer",
    at_once = 1,
    cancellable
)]
impl ImportInTurn {
    type Request = Import;
    type Response = ();

    #[step(1, host = "worker")]
    fn rest(req: &Import) -> Sleep {
        match &req.pause {
            Some(pause) => Sleep::for_(pause),
            None => Sleep::until(std::time::SystemTime::UNIX_EPOCH),
        }
    }

    #[step(2, host = "worker", undo = take_back, on_exhausted = "dead_letter")]
    async fn import(req: &Import) -> StepResult<u32> {
        if req.parks {
            return Err(StepError::permanent("a person has to look"));
        }
        service(&format!("{}-{}", req.service, req.customer))
            .call()
            .await;
        Ok(1)
    }

    async fn take_back(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    fn respond() {}
}

struct ImportNewest;

#[distributed_task(
    name = "ImportNewest",
    key = "req.customer",
    at_once = 1,
    beyond = "replace",
    cancellable
)]
impl ImportNewest {
    type Request = Import;
    type Response = ();

    #[step(1, host = "worker", undo = take_back)]
    async fn import(req: &Import) -> StepResult<u32> {
        service(&req.service).call().await;
        Ok(1)
    }

    async fn take_back(req: &Import) -> UndoResult {
        service(&format!("{}-undo", req.service)).call().await;
        Ok(())
    }

    fn respond() {}
}

struct ImportOnly;

#[distributed_task(
    name = "ImportOnly",
    key = "req.customer",
    at_once = 1,
    beyond = "refuse"
)]
impl ImportOnly {
    type Request = Import;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn import(req: &Import) -> StepResult<u32> {
        service(&req.service).call().await;
        Ok(1)
    }

    fn respond() {}
}

/// Waits for one that is counted by a key, and is not counted itself.
struct ImportBelow;

#[distributed_task(name = "ImportBelow", queue = "above")]
impl ImportBelow {
    type Request = Import;
    type Response = ();

    #[step(1, host = "worker")]
    fn import(req: &Import) -> AwaitTask<ImportInTurn> {
        AwaitTask::of(req)
    }

    fn respond() {}
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Depth {
    depth: u32,
}

struct Descend;

#[distributed_task(name = "Descend", at_once = 2)]
impl Descend {
    type Request = Depth;
    type Response = u32;

    #[step(1, host = "worker", when = goes_on)]
    fn below(req: &Depth) -> AwaitTask<Descend> {
        AwaitTask::of(&Depth {
            depth: req.depth - 1,
        })
    }

    fn goes_on(req: &Depth) -> bool {
        req.depth > 0
    }

    fn respond(below: Option<&u32>) -> u32 {
        below.map_or(0, |below| below + 1)
    }
}

fn form(service: &str, customer: &str) -> Form {
    Form::new()
        .field("service", service)
        .field("customer", customer)
}

pub(crate) async fn submit(
    site: &Site,
    service: &str,
    customer: &str,
    tasks: usize,
) -> Vec<TaskId> {
    let mut submitted = Vec::new();
    for _ in 0..tasks {
        // Of two submissions at the same time, either may be the older one.
        site.clock.advance("1ms");
        submitted.push(site.submit(form(service, customer)).await);
    }
    submitted
}

/// These wait for a place, and sleep.
pub(crate) async fn asleep(site: &Site, tasks: &[TaskId]) {
    let sleeps = |record: &counterstep_kernel::record::TaskRecord| {
        record.task.waiting == Some(WaitReason::Concurrency)
    };
    site.all("asleep", tasks, sleeps).await;
}

#[tokio::test]
async fn one_task_of_a_key_is_under_way_at_a_time_and_the_oldest_comes_first() {
    let mut site = Harness::embedded(only::<ImportInTurn>()).start().await;
    let a = submit(&site, "turn", "a", 4).await;
    let b = submit(&site, "turn", "b", 2).await;
    site.serve(8);
    let (of_a, of_b) = (service("turn-a"), service("turn-b"));
    inside(&of_a, 1).await;
    inside(&of_b, 1).await;
    asleep(&site, &a[1..]).await;
    let sleeper = site.record(a[2]).await;
    assert_eq!(sleeper.task.lease_owner, None);
    assert_eq!(sleeper.steps[1].attempts.0, 0);
    for (at, task) in a.iter().enumerate() {
        inside(&of_a, 1).await;
        let running = site.record(*task).await;
        assert_eq!(running.steps[1].status, StepStatus::Running, "number {at}");
        of_a.gate.add_permits(1);
        site.all_are(TaskStatus::Completed, &[*task]).await;
    }
    of_b.gate.add_permits(2);
    site.all_are(TaskStatus::Completed, &b).await;
    assert_eq!((of_a.most(), of_b.most()), (1, 1));
    let all = [a, b].concat();
    site.assert_invariants(&all).await;
}

#[tokio::test]
async fn a_task_that_sleeps_for_a_timer_keeps_its_place() {
    let mut site = Harness::embedded(only::<ImportInTurn>()).start().await;
    let first = site.submit(form("timer", "a").field("pause", "5m")).await;
    let second = site.submit(form("timer", "a")).await;
    let called = service("timer-a");
    called.gate.add_permits(2);
    site.serve(4);
    let timer = |record: &counterstep_kernel::record::TaskRecord| {
        record.task.waiting == Some(WaitReason::Timer)
    };
    site.all("on its timer", &[first], timer).await;
    asleep(&site, &[second]).await;
    assert_eq!(called.most(), 0);
    site.clock.advance("5m");
    site.all_are(TaskStatus::Completed, &[first, second]).await;
    assert_eq!(called.most(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_place_of_a_task_whose_host_is_lost_stays_its_own() {
    let mut site = Harness::embedded(only::<ImportInTurn>())
        .settings(|settings| settings.step_timeout = Duration::from_secs(600))
        .start()
        .await;
    let tasks = submit(&site, "lost", "a", 2).await;
    let called = service("lost-a");
    let running = {
        let (engine, task) = (site.engine.clone(), tasks[0]);
        tokio::spawn(async move { turn(&engine, Host::Worker, task, &CancelToken::new()).await })
    };
    inside(&called, 1).await;
    running.abort();
    running.await.expect_err("it was aborted");
    site.serve(2);
    asleep(&site, &tasks[1..]).await;
    called.gate.add_permits(2);
    site.clock.advance("31s");
    let lost = recovery::plan(&site.engine, Lost::default(), 10)
        .await
        .expect("the plan");
    recovery::run(&site.engine, lost, &CancelToken::new()).await;
    site.all_are(TaskStatus::Completed, &tasks).await;
    assert_eq!(called.most(), 1);
    site.assert_invariants(&tasks).await;
}

#[tokio::test]
async fn a_person_sets_another_number_and_the_reconciler_wakes_those_that_it_is_for() {
    let mut site = Harness::embedded(only::<ImportInTurn>()).start().await;
    let engine = site.engine.clone();
    let tasks = submit(&site, "set", "a", 5).await;
    let called = service("set-a");
    site.serve(8);
    inside(&called, 1).await;
    asleep(&site, &tasks[1..]).await;
    let new = |at_once| NewLimit {
        at_once: Some(at_once),
        rate: None,
        actor: "operator:kim",
        note: "there is room",
    };
    let impossible = set_limit(&engine, "type:ImportInTurn", new(1_001)).await;
    assert!(matches!(impossible, Err(LimitError::NotOfTasks)));
    let unknown = set_limit(&engine, "type:Unknown", new(3)).await;
    assert!(matches!(
        unknown,
        Err(LimitError::Setting(SettingError::Unknown(SettingOf::Limit)))
    ));
    set_limit(&engine, "type:ImportInTurn", new(3))
        .await
        .expect("it is set");
    let rows = limits(&engine).await.expect("they are read");
    let row = rows.iter().find(|row| row.name == "type:ImportInTurn");
    let row = row.expect("the row of the type");
    assert_eq!(row.declared.as_ref().and_then(|it| it.at_once), Some(1));
    assert_eq!((row.uses[0].held, row.uses[0].waiting), (1, 4));
    assert!(row.uses[0].of.starts_with("default/"), "{}", row.uses[0].of);
    site.clock.advance("1s");
    let plan = eventually("the plan", || async {
        let plan = places::plan(&engine, 10).await.expect("the plan");
        (!plan.is_empty()).then_some(plan)
    })
    .await;
    assert_eq!(plan, tasks[1..3]);
    let woken = places::run(&engine, plan, &CancelToken::new()).await;
    assert_eq!(woken.expect("the store answers"), 2);
    inside(&called, 3).await;
    assert_eq!(places::plan(&engine, 10).await.expect("the plan"), []);
    // A lower number holds once enough of them are at rest.
    set_limit(&engine, "type:ImportInTurn", new(1))
        .await
        .expect("it is set");
    site.clock.advance("1s");
    called.gate.add_permits(1);
    inside(&called, 2).await;
    called.gate.add_permits(1);
    inside(&called, 1).await;
    asleep(&site, &tasks[3..]).await;
    called.gate.add_permits(3);
    site.all_are(TaskStatus::Completed, &tasks).await;
    assert_eq!(called.most(), 3);
}

#[tokio::test]
async fn a_parked_task_holds_no_place_and_waits_for_one_when_it_is_redriven() {
    let mut site = Harness::embedded(only::<ImportInTurn>()).start().await;
    let parked = site.submit(form("parked", "a").field("parks", true)).await;
    site.serve(4);
    site.all_are(TaskStatus::DeadLettered, &[parked]).await;
    let next = site.submit(form("parked", "a")).await;
    let called = service("parked-a");
    inside(&called, 1).await;
    let retrial = Retrial {
        direction: None,
        actor: "operator:kim".to_owned(),
        note: "it was the network".to_owned(),
        bulk: None,
        edit: None,
    };
    retry(&site.engine, parked, retrial)
        .await
        .expect("accepted");
    asleep(&site, &[parked]).await;
    let record = site.record(parked).await;
    let around = surroundings(&site.engine, &record).await;
    let why = why_among(&site.engine.registry, &record, &around);
    assert_eq!(why.because[0].code, WhyCode::Concurrency);
    assert_eq!(why.because[0].tasks, [next]);
    let more = &why.operator_can[0];
    assert_eq!(more.path, "/api/limits/type:ImportInTurn");
    assert_eq!(more.ends, Some(WhyCode::Concurrency));
    called.gate.add_permits(1);
    site.all_are(TaskStatus::Completed, &[next]).await;
    site.all_are(TaskStatus::DeadLettered, &[parked]).await;
    site.assert_invariants(&[parked, next]).await;
}

#[tokio::test]
async fn a_task_that_sleeps_for_a_place_can_be_cancelled_and_ends_at_its_deadline() {
    let mut site = Harness::embedded(only::<ImportInTurn>()).start().await;
    let tasks = submit(&site, "sleepers", "a", 3).await;
    site.serve(4);
    let called = service("sleepers-a");
    inside(&called, 1).await;
    asleep(&site, &tasks[1..]).await;
    cancel(&site.engine, tasks[1], "client")
        .await
        .expect("accepted");
    let cancelled = &site.all_are(TaskStatus::Cancelled, &tasks[1..2]).await[0];
    assert!(
        cancelled
            .steps
            .iter()
            .all(|step| step.status == StepStatus::Pending)
    );
    site.clock.advance("1h");
    let failed = &site.all_are(TaskStatus::Failed, &tasks[2..]).await[0];
    let failure = failed.task.failure.clone().expect("a failure");
    assert_eq!(failure.class, "deadline");
    called.gate.add_permits(1);
    site.assert_invariants(&tasks[1..]).await;
}

#[tokio::test]
async fn a_newer_task_replaces_the_older_ones_and_starts_once_they_are_undone() {
    let mut site = Harness::embedded(only::<ImportNewest>()).start().await;
    let (called, undone) = (service("newest"), service("newest-undo"));
    let first = site.submit(form("newest", "a")).await;
    site.serve(8);
    inside(&called, 1).await;
    let second = site.submit(form("newest", "a")).await;
    // The first one is told, and ends its call.
    inside(&undone, 1).await;
    asleep(&site, &[second]).await;
    let third = site.submit(form("newest", "a")).await;
    let replaced = &site.all_are(TaskStatus::Cancelled, &[second]).await[0];
    assert_eq!(replaced.steps[0].status, StepStatus::Pending);
    let failure = replaced.task.failure.clone().expect("the reason");
    assert_eq!(failure.class, "replaced");
    assert!(failure.message.contains(&third.to_string()), "{failure:?}");
    asleep(&site, &[third]).await;
    assert_eq!(called.inside(), 0, "the first one is being undone");
    undone.gate.add_permits(1);
    site.all_are(TaskStatus::Cancelled, &[first]).await;
    inside(&called, 1).await;
    // Another customer is none of its business.
    let other = site.submit(form("newest", "b")).await;
    inside(&called, 2).await;
    called.gate.add_permits(2);
    site.all_are(TaskStatus::Completed, &[third, other]).await;
    site.assert_invariants(&[first, second, third, other]).await;
}

#[tokio::test]
async fn a_task_beyond_the_number_is_refused_and_a_repetition_is_none() {
    let mut site = Harness::embedded(only::<ImportOnly>()).start().await;
    let called = service("only");
    let first = site.submit(form("only", "a").key("one")).await;
    let refused = site.try_submit(form("only", "a")).await;
    let Err(SubmitError::TooManyAtOnce(refused)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((refused.at_once, refused.tasks), (1, vec![first]));
    assert_eq!(site.submit(form("only", "a").key("one")).await, first);
    let others = [
        site.submit(form("only", "b")).await,
        site.submit(form("only", "a").tenant("other")).await,
    ];
    site.serve(4);
    called.gate.add_permits(4);
    site.all_are(TaskStatus::Completed, &[first]).await;
    let again = site.submit(form("only", "a")).await;
    site.all_are(TaskStatus::Completed, &[others[0], others[1], again])
        .await;
    site.assert_invariants(&[first, others[0], others[1], again])
        .await;
}

#[tokio::test]
async fn of_many_submissions_at_once_no_more_are_accepted_than_may_be() {
    let site = Harness::embedded(only::<ImportOnly>()).start().await;
    let submit = |_| site.try_submit(form("crowd", "a"));
    let submitted = futures::future::join_all((0..12).map(submit)).await;
    let accepted = submitted.iter().filter(|it| it.is_ok()).count();
    assert_eq!(accepted, 1);
    for refused in submitted.into_iter().filter_map(Result::err) {
        assert!(
            matches!(refused, SubmitError::TooManyAtOnce(_)),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn tasks_of_a_task_run_within_its_place() {
    let mut site = Harness::embedded(Registry::new().with::<Descend>())
        .start()
        .await;
    let tasks = [
        site.submit(Form::new().field("depth", 3)).await,
        site.submit(Form::new().field("depth", 3)).await,
        site.submit(Form::new().field("depth", 0)).await,
    ];
    site.serve(8);
    let ended = site.all_are(TaskStatus::Completed, &tasks).await;
    assert_eq!(ended[0].task.response, Some(3.into()));
}

fn damage(site: &Site, task: TaskId) {
    let _ = site.rows(&format!(
        "UPDATE journal SET entries = 'none' WHERE task = '{task}'"
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_cannot_be_read_keeps_none_below_it_from_its_place() {
    let types = Registry::new().with::<ImportBelow>().with::<ImportInTurn>();
    let site = Harness::embedded(types).start().await;
    let form = Form::to::<ImportBelow>().field("service", "below");
    let parent = site.submit(form.field("customer", "a")).await;
    let stop = CancelToken::new();
    turn(&site.engine, Host::Worker, parent, &stop).await;
    let query = ChildQuery {
        parent,
        step: None,
        statuses: Vec::new(),
        after: None,
        limit: 10,
    };
    let lines = site.engine.ports.store.children(&query).await;
    let child = lines.expect("the store answers")[0].task;
    damage(&site, parent);
    service("below-a").gate.add_permits(1);
    let end = turn(&site.engine, Host::Worker, child, &stop).await;
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Completed));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_task_that_cannot_be_read_keeps_no_newer_one_from_its_place() {
    let site = Harness::embedded(only::<ImportNewest>()).start().await;
    let tasks = submit(&site, "unread", "a", 2).await;
    damage(&site, tasks[0]);
    service("unread").gate.add_permits(1);
    let end = turn(&site.engine, Host::Worker, tasks[1], &CancelToken::new()).await;
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Completed));
}
