//! A task that has to run among few and fits nowhere: one process makes room for it, and the others
//! work on, whether processes share a lock service or not. And one that fits nowhere because of
//! abandoned code.

use async_trait::async_trait;
use counterstep_adapters::embedded::{self, EmbeddedPaths};
use counterstep_adapters::local::LocalLocks;
use counterstep_adapters::step_threads::StepThreads;
use counterstep_contracts::{Host, Labels, StepStatus, TaskId, TaskStatus, Tenant};
use counterstep_kernel::client::{Submission, UploadSession};
use counterstep_kernel::host::{HostSettings, serve};
use counterstep_kernel::ports::Lost;
use counterstep_kernel::ports::{Acquired, LockError, LockTag, Locks, Ports};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_reconciler::recovery;
use counterstep_steps::{
    CancelReason, CancelToken, Registry, RetryPolicy, StepContext, StepResult,
};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{LossyQueue, TestClock};
use futures::future::select_all;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

/// A lock service of all processes.
#[derive(Debug, Default)]
struct Shared(LocalLocks);

#[async_trait]
impl Locks for Shared {
    async fn acquire(&self, task: TaskId, ttl: Duration) -> Result<Acquired, LockError> {
        self.0.acquire(task, ttl).await
    }

    async fn extend(&self, task: TaskId, tag: &LockTag, ttl: Duration) -> Result<bool, LockError> {
        self.0.extend(task, tag, ttl).await
    }

    async fn release(&self, task: TaskId, tag: &LockTag) -> Result<(), LockError> {
        self.0.release(task, tag).await
    }
}

/// A permit for each rest of a test that may end.
static RESTED: [Semaphore; 4] = [const { Semaphore::const_new(0) }; 4];

#[derive(Debug, Serialize, Deserialize)]
struct Guest {
    /// A place in `RESTED`; `None`: it does not rest.
    rests: Option<usize>,
}

struct Stay;

#[distributed_task(name = "Stay", queue = "stays", lease = "2s", max_recoveries = 1)]
impl Stay {
    type Request = Guest;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn rest(_ctx: &StepContext, guest: &Guest) -> StepResult<u32> {
        if let Some(test) = guest.rests {
            RESTED[test]
                .acquire()
                .await
                .expect("it stays open")
                .forget();
        }
        Ok(1)
    }

    fn respond() {}
}

/// Whether code that blocks its thread may let go of it.
static LET_GO: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

const NEVER: RetryPolicy = RetryPolicy::NONE;

struct Jam;

#[distributed_task(name = "Jam", queue = "jams")]
impl Jam {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", timeout = "200ms", retry = NEVER, no_undo = "does nothing")]
    async fn block(_ctx: &StepContext) -> StepResult<u32> {
        drop(
            LET_GO
                .1
                .wait_while(LET_GO.0.lock().expect("a flag"), |free| !*free)
                .expect("a flag"),
        );
        Ok(1)
    }

    fn respond() {}
}

/// Files of an installation whose processes find each task by looking for due ones.
struct Installation {
    _folder: tempfile::TempDir,
    clock: TestClock,
    ports: Ports,
    registry: Arc<Registry>,
}

impl Installation {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = EmbeddedPaths {
            database: folder.path().join("counterstep.db"),
            objects: folder.path().join("objects"),
            scratch: folder.path().join("scratch"),
        };
        let clock = TestClock::new();
        let mut ports = embedded::open(paths, clock.embedded())
            .await
            .expect("it opens");
        ports.queue = Arc::<LossyQueue>::default();
        let registry = Arc::new(Registry::new().with::<Stay>().with::<Jam>());
        Self {
            _folder: folder,
            clock,
            ports,
            registry,
        }
    }

    fn engine(&self) -> Engine {
        Engine::new(
            self.ports.clone(),
            self.registry.clone(),
            EngineSettings::default(),
            "worker",
        )
    }

    async fn submitted(&self, rests: Option<usize>) -> TaskId {
        self.submit("Stay", serde_json::json!({ "rests": rests }))
            .await
    }

    async fn submit(&self, name: &str, body: serde_json::Value) -> TaskId {
        let task_type = self.registry.get(name, 1).expect("the type");
        let submission = Submission {
            tenant: Tenant::default(),
            actor: "client".to_owned(),
            key: None,
            traceparent: None,
            webhook: None,
            labels: Labels::new(),
        };
        let engine = self.engine();
        let mut session = UploadSession::begin(&engine, task_type, submission)
            .await
            .expect("the session begins");
        session.body(body).expect("the body is accepted");
        session
            .submit()
            .await
            .expect("the request is accepted")
            .answer
            .task_id
    }

    /// A task that has lost as many hosts as it may.
    async fn suspect(&self, test: usize) -> TaskId {
        let suspect = self.submitted(Some(test)).await;
        let doomed = self.engine();
        let lost =
            tokio::spawn(
                async move { turn(&doomed, Host::Worker, suspect, &CancelToken::new()).await },
            );
        is(&self.engine(), "a turn that gets lost", suspect, runs).await;
        lost.abort();
        self.clock.advance("10s");
        let plan = recovery::plan(&self.engine(), Lost::default(), 10)
            .await
            .expect("a plan");
        recovery::run(&self.engine(), plan, &CancelToken::new()).await;
        is(&self.engine(), "a loss", suspect, |record| {
            record.task.recovery_attempts == 1
        })
        .await;
        suspect
    }

    /// A task that rests in a process.
    async fn busy(&self, process: &Engine, test: usize) -> tokio::task::JoinHandle<TurnEnd> {
        let busy = self.submitted(Some(test)).await;
        let running = process.clone();
        let turn =
            tokio::spawn(
                async move { turn(&running, Host::Worker, busy, &CancelToken::new()).await },
            );
        is(process, "a busy process", busy, runs).await;
        turn
    }
}

async fn is(engine: &Engine, what: &str, task: TaskId, wanted: impl Fn(&TaskRecord) -> bool) {
    eventually(what, || async {
        let record = engine
            .ports
            .store
            .load(task)
            .await
            .expect("an answer")
            .expect("the task");
        wanted(&record).then_some(())
    })
    .await;
}

fn runs(record: &TaskRecord) -> bool {
    record.steps[0].status == StepStatus::Running
}

/// What tells processes that share no lock apart: one of them is due after half a minute, the
/// others after minutes.
const IDS: [&str; 3] = ["worker:0", "worker:8", "worker:f"];

async fn one_of_three_drains(test: usize, locks: impl Fn() -> Arc<dyn Locks>) {
    let here = Installation::new().await;
    let (engine, clock, registry) = (here.engine(), &here.clock, &here.registry);
    let suspect = here.suspect(test).await;
    clock.advance("1m");

    let spawn: counterstep_kernel::host::Spawn = Arc::new(|future| drop(tokio::spawn(future)));
    let shutdown = CancelToken::new();
    let (mut busy, mut serving) = (Vec::new(), Vec::new());
    for id in IDS {
        // Each has a task that goes on while others would have to wait for its end.
        let mut process = here.engine();
        process.id = id.into();
        process.ports.locks = locks();
        busy.push(here.busy(&process, test).await);
        // One slot: a look for one task that always finds the suspect, as the oldest, would find no
        // other.
        let mut settings = HostSettings::for_all(registry, Host::Worker, 1);
        (settings.poll, settings.unclaimed_for) = (Duration::from_millis(50), Duration::ZERO);
        serving.push(tokio::spawn(serve(
            process,
            settings,
            shutdown.clone(),
            spawn.clone(),
        )));
    }
    // Each process has looked at the suspect many times once this number of tasks has gone past it one after
    // the other.
    for _ in 0..20 {
        let other = here.submitted(None).await;
        is(&engine, "a task beside one that drains", other, |record| {
            record.task.status == TaskStatus::Completed
        })
        .await;
    }
    RESTED[test].add_permits(4);
    is(&engine, "the suspect", suspect, |record| {
        record.task.status == TaskStatus::Completed
    })
    .await;
    shutdown.cancel(CancelReason::Shutdown);
    for ended in serving {
        ended.await.expect("it ends");
    }
    for ended in busy {
        ended.await.expect("it ends");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_drains_for_a_task_that_fits_nowhere_and_the_others_work_on() {
    let shared: Arc<dyn Locks> = Arc::new(Shared::default());
    one_of_three_drains(0, || shared.clone()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_drains_where_each_has_locks_of_its_own() {
    one_of_three_drains(1, || Arc::new(LocalLocks::default())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_that_are_offered_a_task_that_fits_nowhere_one_drains() {
    const TEST: usize = 2;
    let mut here = Installation::new().await;
    let suspect = here.suspect(TEST).await;
    // Not the ones of the turn that was lost, which are held for a while yet.
    here.ports.locks = Arc::new(Shared::default());
    let (mut busy, mut offered) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let process = here.engine();
        busy.push(here.busy(&process, TEST).await);
        offered.push(tokio::spawn(async move {
            turn(&process, Host::Worker, suspect, &CancelToken::new()).await
        }));
    }
    let first = tokio::time::timeout(Duration::from_secs(60), select_all(offered)).await;
    let (end, _, mut drains) = first.expect("one of them leaves it to the other");
    assert!(matches!(end.expect("it ends"), TurnEnd::NoRoom(_)));
    RESTED[TEST].add_permits(3);
    let end = drains.remove(0).await.expect("it ends");
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Completed));
    for ended in busy {
        assert_eq!(
            ended.await.expect("it ends"),
            TurnEnd::Rests(TaskStatus::Completed)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_has_to_be_alone_starts_beside_abandoned_code_once_no_other_process_has_taken_it()
 {
    const TEST: usize = 3;
    let here = Installation::new().await;
    let suspect = here.suspect(TEST).await;
    let mut process = here.engine();
    process.ports.steps = Arc::new(StepThreads::start(2).expect("threads"));
    let jam = here.submit("Jam", serde_json::json!({})).await;
    let runs = async |task| turn(&process, Host::Worker, task, &CancelToken::new()).await;
    assert_eq!(runs(jam).await, TurnEnd::Rests(TaskStatus::Failed));
    assert!(
        matches!(runs(suspect).await, TurnEnd::NoRoom(_)),
        "the code can end the process yet"
    );
    here.clock.advance("4m");
    RESTED[TEST].add_permits(1);
    assert_eq!(runs(suspect).await, TurnEnd::Rests(TaskStatus::Completed));
    *LET_GO.0.lock().expect("a flag") = true;
    LET_GO.1.notify_all();
}
