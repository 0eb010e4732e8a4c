//! Limits of steps: no more attempts run at a time than there are permits, starts of a rate are spaced,
//! and permits of a process that is gone are free after a lease.

use crate::cut_off::connect;
use crate::errand::only;
use async_trait::async_trait;
use counterstep_adapters::embedded::{self, EmbeddedPaths};
use counterstep_contracts::{Host, Rate, StepStatus, TaskId, TaskStatus};
use counterstep_kernel::admission::limits::{
    LimitError, NewLimit, forget_unused_limits, limits, reset_limit, set_limit,
};
use counterstep_kernel::admission::{SettingError, SettingOf};
use counterstep_kernel::ports::{DocumentKind, DocumentWrite, DocumentsPut, Storage, StoreError};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_steps::{CancelToken, Limit, RetryPolicy, StepContext, StepError, StepResult};
use counterstep_testkit::many_tasks::{Site, eventually};
use counterstep_testkit::through::{Around, Through};
use counterstep_testkit::{Form, Harness, TestClock};
use diesel::connection::SimpleConnection;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The called services by name, one for each test.
static SERVICES: LazyLock<Mutex<HashMap<String, Arc<Service>>>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
pub(crate) struct Service {
    inside: Mutex<(usize, usize)>,
    last: Mutex<Option<Instant>>,
    /// A permit for each call that may end.
    pub(crate) gate: Semaphore,
}

pub(crate) fn service(name: &str) -> Arc<Service> {
    let mut services = SERVICES.lock().unwrap();
    let new = || {
        Arc::new(Service {
            inside: Mutex::default(),
            last: Mutex::default(),
            gate: Semaphore::new(0),
        })
    };
    services.entry(name.to_owned()).or_insert_with(new).clone()
}

/// A call that is under way.
struct Inside<'a>(&'a Service);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.lock().unwrap().0 -= 1;
    }
}

impl Service {
    pub(crate) async fn call(&self) {
        {
            let mut inside = self.inside.lock().unwrap();
            inside.0 += 1;
            inside.1 = inside.1.max(inside.0);
        }
        *self.last.lock().unwrap() = Some(Instant::now());
        let _inside = Inside(self);
        self.gate.acquire().await.expect("the gate").forget();
    }

    pub(crate) fn inside(&self) -> usize {
        self.inside.lock().unwrap().0
    }

    pub(crate) fn most(&self) -> usize {
        self.inside.lock().unwrap().1
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Call {
    service: String,
    customer: String,
    /// Its first attempt fails.
    stumbles: bool,
}

const TWO: Limit = Limit::named("two").at_once(2);
const ONE_EACH: Limit = Limit::named("one-each").at_once(1).per_label("customer");
const SLOWLY: Limit = Limit::named("slowly").rate(50, "1s");
const RARELY: Limit = Limit::named("rarely").rate(1, "1h");
const AGAIN: RetryPolicy = RetryPolicy::constant("10ms").max_retries(3);

struct CallBank;

#[distributed_task(name = "CallBank", timeout = "10m")]
impl CallBank {
    type Request = Call;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing", limit = TWO, retry = AGAIN)]
    async fn call(ctx: &StepContext, req: &Call) -> StepResult<u32> {
        service(&req.service).call().await;
        match req.stumbles && ctx.attempt().0 == 1 {
            true => Err(StepError::transient("it stumbles")),
            false => Ok(1),
        }
    }

    fn respond() {}
}

struct CallCustomer;

#[distributed_task(
    name = "CallCustomer",
    timeout = "10m",
    label(customer = "req.customer")
)]
impl CallCustomer {
    type Request = Call;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing", limit = ONE_EACH)]
    async fn call(req: &Call) -> StepResult<u32> {
        service(&format!("{}-{}", req.service, req.customer))
            .call()
            .await;
        Ok(1)
    }

    fn respond() {}
}

struct CallSlowly;

#[distributed_task(name = "CallSlowly", timeout = "10m")]
impl CallSlowly {
    type Request = Call;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing", limit = SLOWLY)]
    async fn call(req: &Call) -> StepResult<u32> {
        service(&req.service).call().await;
        Ok(1)
    }

    fn respond() {}
}

struct CallRarely;

#[distributed_task(name = "CallRarely", timeout = "1m")]
impl CallRarely {
    type Request = Call;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing", limit = RARELY)]
    async fn call(req: &Call) -> StepResult<u32> {
        service(&req.service).call().await;
        Ok(1)
    }

    fn respond() {}
}

async fn submit(site: &Site, service: &str, tasks: usize) -> Vec<TaskId> {
    let mut submitted = Vec::new();
    for _ in 0..tasks {
        submitted.push(site.submit(Form::new().field("service", service)).await);
    }
    submitted
}

pub(crate) async fn inside(called: &Service, calls: usize) {
    eventually("the calls of all permits", || async {
        (called.inside() == calls).then_some(())
    })
    .await;
}

#[tokio::test]
async fn no_more_attempts_run_at_once_than_there_are_permits() {
    let mut site = Harness::embedded(only::<CallBank>()).start().await;
    let called = service("two");
    let tasks = submit(&site, "two", 12).await;
    site.serve(8);
    inside(&called, 2).await;
    // The others hold no lease: they wait in the queue, or for the limit.
    let mut waiting = 0;
    for task in &tasks {
        let record = site.record(*task).await;
        waiting += usize::from(record.steps[0].status == StepStatus::Pending);
        assert!(
            record.steps[0].status == StepStatus::Running || record.task.lease_owner.is_none(),
            "{record:?}"
        );
    }
    assert_eq!(waiting, 10);
    called.gate.add_permits(12);
    let ended = site.all_are(TaskStatus::Completed, &tasks).await;
    assert_eq!(called.most(), 2);
    // Waiting is no attempt.
    for record in ended {
        assert_eq!(record.steps[0].attempts.0, 1);
    }
    site.stop().await;
    let rows = limits(&site.engine).await.expect("they are read");
    assert!(rows[0].uses.iter().all(|used| used.held == 0), "{rows:?}");
    site.assert_invariants(&tasks).await;
}

#[tokio::test]
async fn a_permit_is_free_between_two_attempts_of_a_step() {
    let mut site = Harness::embedded(only::<CallBank>()).start().await;
    let called = service("stumbles");
    let form = || {
        Form::new()
            .field("service", "stumbles")
            .field("stumbles", true)
    };
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(site.submit(form()).await);
    }
    called.gate.add_permits(8);
    site.serve(4);
    let ended = site.all_are(TaskStatus::Completed, &tasks).await;
    assert!(called.most() <= 2);
    assert!(ended.iter().all(|record| record.steps[0].attempts.0 == 2));
}

#[tokio::test]
async fn each_value_of_a_label_has_the_limit_for_itself() {
    let mut site = Harness::embedded(only::<CallCustomer>()).start().await;
    let mut tasks = Vec::new();
    for customer in ["a", "a", "a", "b", "b", "b"] {
        let form = Form::new()
            .field("service", "each")
            .field("customer", customer);
        tasks.push(site.submit(form).await);
    }
    site.serve(8);
    let (a, b) = (service("each-a"), service("each-b"));
    inside(&a, 1).await;
    inside(&b, 1).await;
    a.gate.add_permits(3);
    b.gate.add_permits(3);
    site.all_are(TaskStatus::Completed, &tasks).await;
    assert_eq!((a.most(), b.most()), (1, 1));
}

/// Another process of the same installation.
async fn process(site: &Site) -> Engine {
    let paths = EmbeddedPaths {
        database: site.folder().join("counterstep.db"),
        objects: site.folder().join("objects"),
        scratch: site.folder().join("scratch"),
    };
    let ports = embedded::open(paths, site.clock.embedded())
        .await
        .expect("the adapters open");
    let registry = Arc::new(only::<CallBank>());
    Engine::new(ports, registry, EngineSettings::default(), "gone")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_permits_of_a_process_that_is_gone_are_free_after_a_lease() {
    let mut site = Harness::embedded(only::<CallBank>())
        .settings(|settings| settings.step_timeout = Duration::from_secs(600))
        .start()
        .await;
    let called = service("gone");
    let gone = process(&site).await;
    let mut tasks = submit(&site, "gone", 2).await;
    let running: Vec<_> = tasks
        .iter()
        .map(|task| {
            let (gone, task) = (gone.clone(), *task);
            tokio::spawn(async move { turn(&gone, Host::Worker, task, &CancelToken::new()).await })
        })
        .collect();
    inside(&called, 2).await;
    // All at once: the last one would give back the permits of those before it.
    for turn in &running {
        turn.abort();
    }
    for turn in running {
        turn.await.expect_err("it was aborted");
    }
    tasks.extend(submit(&site, "gone", 1).await);
    site.serve(1);
    eventually("the wait for a permit", || async {
        let rows = limits(&site.engine).await.expect("they are read");
        let used = &rows[0].uses[0];
        (used.held == 2 && used.waiting > 0).then_some(())
    })
    .await;
    let last = site.record(tasks[2]).await;
    assert_eq!(last.steps[0].status, StepStatus::Pending);
    called.gate.add_permits(3);
    site.clock.advance_by(EngineSettings::default().lease);
    site.all_are(TaskStatus::Completed, &tasks[2..]).await;
    // The look for tasks of hosts that are gone comes once a lease.
    site.clock.advance_by(EngineSettings::default().lease);
    site.all_are(TaskStatus::Completed, &tasks).await;
    assert_eq!(called.most(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_after_a_lost_host_needs_a_permit_too() {
    let mut site = Harness::embedded(only::<CallBank>())
        .settings(|settings| settings.step_timeout = Duration::from_secs(600))
        .start()
        .await;
    let called = service("lost");
    let gone = process(&site).await;
    let lost = submit(&site, "lost", 1).await[0];
    let running = {
        let gone = gone.clone();
        tokio::spawn(async move { turn(&gone, Host::Worker, lost, &CancelToken::new()).await })
    };
    inside(&called, 1).await;
    running.abort();
    running.await.expect_err("it was aborted");
    site.clock.advance_by(EngineSettings::default().lease);
    let others = submit(&site, "lost", 2).await;
    let turns: Vec<_> = others
        .iter()
        .map(|task| {
            let (engine, task) = (site.engine.clone(), *task);
            tokio::spawn(
                async move { turn(&engine, Host::Worker, task, &CancelToken::new()).await },
            )
        })
        .collect();
    inside(&called, 2).await;
    let end = turn(&site.engine, Host::Worker, lost, &CancelToken::new()).await;
    let failure = site.record(lost).await.task.failure;
    assert!(matches!(end, TurnEnd::NoRoom(_)), "{end:?}: {failure:?}");
    called.gate.add_permits(3);
    for turn in turns {
        turn.await.expect("no panic");
    }
    site.serve(1);
    site.all_are(TaskStatus::Completed, &others).await;
    // The look for tasks of hosts that are gone comes once a lease.
    site.clock.advance_by(EngineSettings::default().lease);
    site.all_are(TaskStatus::Completed, &[lost]).await;
    assert_eq!(called.most(), 2);
}

#[tokio::test]
async fn a_rate_lets_attempts_start_evenly_spaced() {
    let mut site = Harness::embedded(only::<CallSlowly>()).start().await;
    let called = service("slowly");
    called.gate.add_permits(21);
    let before = Instant::now();
    let tasks = submit(&site, "slowly", 21).await;
    site.serve(4);
    let ended = site.all_are(TaskStatus::Completed, &tasks).await;
    assert_eq!(ended.len(), 21);
    // The last of 21 has 20 periods between two starts before it.
    let last = called.last.lock().unwrap().expect("a call");
    assert!(
        last - before >= Duration::from_millis(400),
        "50 starts a second"
    );
}

/// A database that answers so many writes of a limit's record after this time.
#[derive(Debug)]
struct Late {
    clock: TestClock,
    left: AtomicU32,
    after: &'static str,
}

#[async_trait]
impl Around for Late {
    async fn put(
        &self,
        store: &dyn Storage,
        writes: &[DocumentWrite],
    ) -> Result<DocumentsPut, StoreError> {
        let put = store.put(writes).await;
        let is_of_limit = writes.iter().any(|it| it.kind == DocumentKind::Limit);
        let one_fewer = |left: u32| left.checked_sub(1);
        if is_of_limit && self.left.fetch_update(SeqCst, SeqCst, one_fewer).is_ok() {
            self.clock.advance(self.after);
        }
        put
    }
}

#[tokio::test]
async fn a_start_that_comes_too_late_for_its_process_is_given_again() {
    // At first, and each time.
    for (name, left, after) in [("late", 2, "1s"), ("slow", u32::MAX, "300ms")] {
        let site = Harness::embedded(only::<CallRarely>()).start().await;
        service(name).gate.add_permits(1);
        let task = submit(&site, name, 1).await[0];
        let mut engine = site.engine.clone();
        let late = Late {
            clock: site.clock.clone(),
            left: AtomicU32::new(left),
            after,
        };
        let (store, late) = engine
            .ports
            .store
            .through(|storage| Through::new(storage, late));
        engine.ports.store = store;
        turn(&engine, Host::Worker, task, &CancelToken::new()).await;
        let status = site.record(task).await.task.status;
        assert_eq!(status, TaskStatus::Completed, "{after}");
        assert!(late.around.left.load(SeqCst) <= left - 2, "{after}");
    }
}

#[tokio::test]
async fn a_person_sets_other_values_and_takes_them_back() {
    let mut site = Harness::embedded(only::<CallBank>()).start().await;
    let called = service("set");
    let engine = site.engine.clone();
    let new = |at_once| NewLimit {
        at_once,
        rate: None,
        actor: "operator:kim",
        note: "the bank asks for less",
    };
    let unknown = set_limit(&engine, "three", new(Some(1))).await;
    assert!(
        matches!(
            unknown,
            Err(LimitError::Setting(SettingError::Unknown(SettingOf::Limit)))
        ),
        "{unknown:?}"
    );
    let impossible = set_limit(&engine, "two", new(Some(0))).await;
    assert!(matches!(impossible, Err(LimitError::Impossible(_))));
    set_limit(&engine, "two", new(Some(1)))
        .await
        .expect("it is set");
    let tasks = submit(&site, "set", 6).await;
    site.serve(6);
    inside(&called, 1).await;
    called.gate.add_permits(1);
    inside(&called, 1).await;
    let rows = limits(&engine).await.expect("they are read");
    let set = rows[0].set.clone().expect("values are set");
    assert_eq!((set.at_once, set.by.as_str()), (Some(1), "operator:kim"));
    assert!(
        reset_limit(&engine, "two", "operator:kim", "as before")
            .await
            .expect("it is reset")
    );
    assert!(
        !reset_limit(&engine, "two", "operator:kim", "again")
            .await
            .expect("it is read")
    );
    site.clock.advance("2s");
    inside(&called, 2).await;
    called.gate.add_permits(5);
    let ended = site.all_are(TaskStatus::Completed, &tasks).await;
    assert_eq!(ended.len(), 6);
    assert_eq!(called.most(), 2);
}

#[tokio::test]
async fn records_that_no_process_uses_are_deleted_after_an_hour() {
    let mut site = Harness::embedded(only::<CallBank>()).start().await;
    let called = service("forgotten");
    called.gate.add_permits(1);
    let tasks = submit(&site, "forgotten", 1).await;
    site.serve(1);
    site.all_are(TaskStatus::Completed, &tasks).await;
    site.stop().await;
    let forgotten = || async { forget_unused_limits(&site.engine).await.expect("the store") };
    assert_eq!(forgotten().await, 0);
    site.clock.advance("2h");
    assert_eq!(forgotten().await, 1);
    assert_eq!(forgotten().await, 0);
}

#[tokio::test]
async fn a_single_turn_has_its_permit_too() {
    let called = service("turn");
    called.gate.add_permits(1);
    let form = Form::new().field("service", "turn");
    let task = Harness::embedded(only::<CallBank>()).submit(form).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_invariants().await;
}

#[tokio::test]
async fn a_task_that_ran_into_its_deadline_needs_no_permit_to_fail() {
    let site = Harness::embedded(only::<CallRarely>()).start().await;
    service("rarely").gate.add_permits(2);
    let tasks = submit(&site, "rarely", 2).await;
    let turn_of =
        async |task: TaskId| turn(&site.engine, Host::Worker, task, &CancelToken::new()).await;
    let completed = TurnEnd::Rests(TaskStatus::Completed);
    assert_eq!(turn_of(tasks[0]).await, completed);
    let held_back = turn_of(tasks[1]).await;
    assert!(matches!(held_back, TurnEnd::NoRoom(_)), "{held_back:?}");
    site.clock.advance("2m");
    assert_eq!(turn_of(tasks[1]).await, TurnEnd::Rests(TaskStatus::Failed));
    let failure = site.record(tasks[1]).await.task.failure;
    assert_eq!(failure.expect("a failure").class, "deadline");
}

#[test]
fn a_rate_is_read_as_it_is_shown() {
    let rate = Rate::parse("50/1s").expect("a rate");
    assert_eq!((rate.starts, rate.per), (50, Duration::from_secs(1)));
    assert_eq!(rate.to_string(), "50/1s");
    for text in ["", "50", "50/", "/1s", "x/1s", "50/s", "-1/1s"] {
        assert!(Rate::parse(text).is_err(), "{text}");
    }
}

/// What a condition of a limited step reads.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Perhaps {
    at_once: bool,
    later: bool,
}

const SELDOM: Limit = Limit::named("seldom").rate(1, "1h");

struct CallPerhaps;

#[distributed_task(name = "CallPerhaps", timeout = "10m")]
impl CallPerhaps {
    type Request = Perhaps;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing", limit = SELDOM, when = is_called)]
    async fn call(_req: &Perhaps) -> StepResult<u32> {
        Ok(1)
    }

    fn is_called(req: &Perhaps) -> bool {
        req.at_once
    }

    #[step(2, host = "worker", no_undo = "does nothing")]
    async fn look(req: &Perhaps) -> StepResult<bool> {
        Ok(req.later)
    }

    #[step(3, host = "worker", no_undo = "does nothing", limit = SELDOM, when = is_found)]
    async fn call_later(_req: &Perhaps) -> StepResult<u64> {
        Ok(1)
    }

    fn is_found(look: &bool) -> bool {
        *look
    }

    fn respond() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_step_that_is_skipped_neither_waits_for_its_limit_nor_uses_up_a_start() {
    let site = Harness::embedded(only::<CallPerhaps>()).start().await;
    let submit = async |at_once, later| {
        let form = Form::new().field("at_once", at_once).field("later", later);
        site.submit(form).await
    };
    let turn_of =
        async |task: TaskId| turn(&site.engine, Host::Worker, task, &CancelToken::new()).await;
    let completed = TurnEnd::Rests(TaskStatus::Completed);
    let skips = submit(false, false).await;
    assert_eq!(turn_of(skips).await, completed);
    // The only start of this hour is left.
    let calls = submit(false, true).await;
    assert_eq!(turn_of(calls).await, completed);
    let skips_too = submit(false, false).await;
    assert_eq!(turn_of(skips_too).await, completed);
    let waits = submit(true, false).await;
    let held_back = turn_of(waits).await;
    assert!(matches!(held_back, TurnEnd::NoRoom(_)), "{held_back:?}");
    site.assert_invariants(&[skips, calls, skips_too]).await;
}

struct CallBoth;

#[distributed_task(name = "CallBoth", timeout = "10m")]
impl CallBoth {
    type Request = Call;
    type Response = ();

    #[step(1, host = "worker", group = "both", no_undo = "does nothing")]
    async fn first(req: &Call) -> StepResult<u32> {
        service(&format!("{}-first", req.service)).call().await;
        Ok(1)
    }

    #[step(2, host = "worker", group = "both", no_undo = "does nothing")]
    async fn second(req: &Call) -> StepResult<u64> {
        service(&format!("{}-second", req.service)).call().await;
        Ok(1)
    }

    fn respond() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_a_group_that_completes_sets_the_count_of_lost_hosts_back() {
    let site = Harness::embedded(only::<CallBoth>())
        .settings(|settings| settings.step_timeout = Duration::from_secs(600))
        .start()
        .await;
    let (first, second) = (service("both-first"), service("both-second"));
    let task = site.submit(Form::new().field("service", "both")).await;
    let run = |engine: &Engine| {
        let engine = engine.clone();
        tokio::spawn(async move { turn(&engine, Host::Worker, task, &CancelToken::new()).await })
    };
    let lost = run(&site.engine);
    inside(&first, 1).await;
    inside(&second, 1).await;
    lost.abort();
    lost.await.expect_err("it was aborted");
    site.clock.advance_by(EngineSettings::default().lease);
    let again = run(&site.engine);
    inside(&first, 1).await;
    inside(&second, 1).await;
    assert_eq!(site.record(task).await.task.recovery_attempts, 1);
    first.gate.add_permits(1);
    let record = site
        .all("the first is done", &[task], |record| {
            record.steps[0].status == StepStatus::Completed
        })
        .await;
    assert_eq!(record[0].steps[1].status, StepStatus::Running);
    assert_eq!(record[0].task.recovery_attempts, 0);
    second.gate.add_permits(1);
    let end = again.await.expect("no panic");
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Completed));
    site.assert_invariants(&[task]).await;
}

/// Documents as before, and a row of set values that cannot be read.
const VALUES_UNREADABLE: &str = "
    BEGIN IMMEDIATE;
    ALTER TABLE documents RENAME TO strict_documents;
    CREATE TABLE documents (
        kind TEXT NOT NULL, tenant TEXT NOT NULL, name TEXT NOT NULL, rev INTEGER NOT NULL, body TEXT, due_at INTEGER,
        seen_at INTEGER NOT NULL, PRIMARY KEY (kind, tenant, name)
    );
    INSERT INTO documents SELECT * FROM strict_documents;
    INSERT INTO documents VALUES ('limit_values', 'default', 'seldom', 1, NULL, NULL, 0);
    COMMIT;";

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_could_never_read_set_values_takes_no_permits() {
    let mut site = Harness::embedded(only::<CallPerhaps>()).start().await;
    let mut database = connect(site.folder());
    database
        .batch_execute(VALUES_UNREADABLE)
        .expect("it is executed");
    let task = site.submit(Form::new().field("later", true)).await;
    let end = turn(&site.engine, Host::Worker, task, &CancelToken::new()).await;
    let record = site.record(task).await;
    assert_eq!(end, TurnEnd::GivenBack, "{record:?}");
    let last = &record.steps[2];
    assert_eq!((last.status, last.attempts.0), (StepStatus::Pending, 0));

    database
        .batch_execute("DELETE FROM documents WHERE kind = 'limit_values'")
        .expect("it is executed");
    site.clock.advance("1m");
    site.serve(1);
    site.all_are(TaskStatus::Completed, &[task]).await;
    site.assert_invariants(&[task]).await;
    site.stop().await;
}
