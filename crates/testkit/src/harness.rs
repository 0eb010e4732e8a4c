//! A whole engine in a temporary folder. A test plants its faults, submits, and drives turns until
//! the task rests.

use crate::answers::Answers;
use crate::clock::TestClock;
use crate::form::{Form, submit};
use crate::service_of::ServiceOf;
use crate::site::{Site, check_states, eventually, pause};
use crate::{invariants, trail};
use counterstep_adapters::embedded::{self, EmbeddedPaths};
use counterstep_contracts::{Host, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::faults::{Fault, FaultKind};
use counterstep_kernel::ports::{
    HttpServices, Lost, NoServices, ObjectInfo, Ports, ServiceAnswer, ServiceError, ServiceRequest,
};
use counterstep_kernel::record::{History, TaskRecord};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_reconciler::{OrphanSettings, fsck, orphans, recovery};
use counterstep_steps::{CancelToken, Registry};
use futures::TryStreamExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A task that has not come to rest after this long never will.
const LIMIT: Duration = Duration::from_secs(60);

/// Longer than a busy machine holds up a heartbeat.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// Beyond what an attempt may take, its grace and its lease: what it has left is an orphan then.
const BEYOND_ATTEMPTS: &str = "1d";

const DATABASE: &str = "counterstep.db";

/// What a test sets up.
#[derive(Debug)]
pub struct Harness {
    registry: Registry,
    settings: EngineSettings,
    crash_at: Option<Fault>,
    services: Option<Arc<dyn HttpServices>>,
}

impl Harness {
    /// On the embedded adapters, with a lease that outlasts every pause of a busy machine: where no
    /// host is lost, none is to look so.
    #[must_use]
    pub fn embedded(registry: Registry) -> Self {
        let settings = EngineSettings {
            lease: LEASE,
            step_timeout: Duration::from_secs(2),
            cancel_grace: Duration::from_millis(100),
            ..EngineSettings::default()
        };
        Self {
            registry,
            settings,
            crash_at: None,
            services: None,
        }
    }

    /// The step does its work and then fails for good.
    #[must_use]
    pub fn fail_at(self, step: &str) -> Self {
        self.fault(Fault::at(step, FaultKind::FailAfter))
    }

    /// The host is lost in the first attempt of the step, after its work and before its commit.
    #[must_use]
    pub fn crash_at(mut self, step: &str) -> Self {
        self.crash_at = Some(Fault::at(step, FaultKind::Hang).on_attempt(1));
        self
    }

    /// The host is lost in the first attempt of the step, before its work.
    #[must_use]
    pub fn crash_before(mut self, step: &str) -> Self {
        self.crash_at = Some(Fault::at(step, FaultKind::HangBefore).on_attempt(1));
        self
    }

    /// The host is lost in the first attempt of the step's undo.
    #[must_use]
    pub fn crash_in_undo_of(mut self, step: &str) -> Self {
        self.crash_at = Some(Fault::at(step, FaultKind::Hang).on_attempt(1).in_undo());
        self
    }

    /// With this fault.
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.settings.faults.push(fault);
        self
    }

    /// With these settings, changed.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut EngineSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// With a value for steps that take `&State<T>`, in the place of what the registry provides.
    #[must_use]
    pub fn provide<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.registry = self.registry.provide(value);
        self
    }

    /// With services that steps call.
    #[must_use]
    pub fn services(mut self, services: Arc<dyn HttpServices>) -> Self {
        self.services = Some(services);
        self
    }

    /// With a service of this name that a closure stands for. Others are as before.
    #[must_use]
    pub fn service(
        mut self,
        name: &str,
        answer: impl Fn(&ServiceRequest) -> Result<ServiceAnswer, ServiceError> + Send + Sync + 'static,
    ) -> Self {
        let others = self.services.take().unwrap_or_else(|| Arc::new(NoServices));
        self.services = Some(Arc::new(ServiceOf {
            name: name.to_owned(),
            answer: Box::new(answer),
            others,
        }));
        self
    }

    /// Starts the engine without a task, for tests of many tasks at once.
    ///
    /// # Panics
    /// When anything goes wrong: it is a test.
    pub async fn start(self) -> Site {
        let mut site = Site::start(self.registry, self.settings).await;
        site.engine.ports.services = self.services.unwrap_or(site.engine.ports.services);
        site
    }

    /// Starts the engine and submits.
    ///
    /// # Panics
    /// When anything goes wrong: it is a test.
    pub async fn submit(self, mut form: Form) -> TestTask {
        let answers = Answers::of(std::mem::take(&mut form.answers), &self.registry);
        let folder = tempfile::Builder::new()
            .prefix("counterstep-test-")
            .tempdir()
            .expect("a temporary folder");
        let clock = TestClock::new();
        let mut ports = open(folder.path(), &clock).await;
        ports.services = self.services.unwrap_or(ports.services);
        check_states(&self.registry);
        let registry = Arc::new(self.registry);
        // A step that is to be struck must not have run ahead of its task.
        let mut settings = self.settings.clone();
        settings.faults.extend(self.crash_at.clone());
        let id = submit(
            &Engine::new(ports.clone(), registry.clone(), settings, "test"),
            form,
        )
        .await;
        clock.runs(id);
        let engine = Engine::new(ports, registry, self.settings, "test");
        TestTask {
            engine,
            id,
            clock,
            crash_at: self.crash_at,
            answers,
            folder,
        }
    }
}

pub(crate) async fn open(folder: &Path, clock: &TestClock) -> Ports {
    let paths = EmbeddedPaths {
        database: folder.join(DATABASE),
        objects: folder.join("objects"),
        scratch: folder.join("scratch"),
    };
    embedded::open(paths, clock.embedded())
        .await
        .expect("the embedded adapters open")
}

/// A submitted task under test.
#[derive(Debug)]
pub struct TestTask {
    /// Its engine.
    pub engine: Engine,
    /// Its id.
    pub id: TaskId,
    /// The time of its engine and its database.
    pub clock: TestClock,
    crash_at: Option<Fault>,
    answers: Answers,
    folder: TempDir,
}

impl TestTask {
    /// Gives the task turns, on both kinds of host, and recovers it where its host was lost, until
    /// it rests. What it waits for between two turns is passed at once: a retry, a timer, a
    /// breaker, the lease of a lost host. A signal is sent as the form plans it, or waited for.
    ///
    /// # Panics
    /// When it does not come to rest.
    pub async fn run_to_rest(&self) -> TaskStatus {
        self.run_unless_missed()
            .await
            .expect("the task rests before the fault struck")
    }

    /// The same; `None`: the task rests before the fault struck that its host was to be lost at.
    pub(crate) async fn run_unless_missed(&self) -> Option<TaskStatus> {
        let until = Instant::now() + LIMIT;
        if let Some(fault) = &self.crash_at
            && !self.lose_host_at(fault, until).await
        {
            return None;
        }
        loop {
            let record = self.record().await;
            self.answers.send(&self.engine, &record).await;
            if record.task.status.is_at_rest() {
                return Some(record.task.status);
            }
            assert!(
                Instant::now() < until,
                "the task does not come to rest: {}",
                self.trail().await
            );
            let end = turn(&self.engine, record.task.host, self.id, &CancelToken::new()).await;
            if matches!(end, TurnEnd::Rests(_)) {
                continue;
            }
            let left = self.until_next_turn(&end).await;
            if end == TurnEnd::GivenBack && left.is_zero() {
                continue;
            }
            if !left.is_zero() {
                self.clock.advance_by(left);
            } else {
                pause().await;
            }
            let plan = recovery::plan(&self.engine, Lost::default(), 10)
                .await
                .expect("the plan");
            recovery::run(&self.engine, plan, &CancelToken::new()).await;
        }
    }

    /// For how long nothing can happen to the task by itself.
    async fn until_next_turn(&self, end: &TurnEnd) -> Duration {
        let record = self.record().await;
        let row = &record.task;
        if let Some(lease) = row.lease_expires_at {
            return lease.after(record.now);
        }
        match (end, row.waiting) {
            (_, Some(WaitReason::Signal)) if !self.answers.let_deadlines_pass(&record) => {
                Duration::ZERO
            }
            (TurnEnd::Busy(left) | TurnEnd::NoRoom(left), _) => *left,
            _ => record.due_in(),
        }
    }

    /// Gives the task turns, on both kinds of host, until it waits for a time or a signal.
    ///
    /// # Panics
    /// When it comes to rest instead.
    pub async fn run_to_wait(&self) -> TaskRecord {
        eventually("the task waits", || async {
            let record = self.record().await;
            if record.task.status == TaskStatus::Waiting {
                return Some(record);
            }
            assert!(
                !record.task.status.is_at_rest(),
                "it rests and never waited: {}",
                self.trail().await
            );
            turn(&self.engine, record.task.host, self.id, &CancelToken::new()).await;
            None
        })
        .await
    }

    /// Lets time pass while a turn runs elsewhere in the test: less than the lease at a time, and each
    /// time its heartbeat gets through.
    ///
    /// # Panics
    /// When a heartbeat does not come.
    pub async fn pass_under_lease(&self, time: Duration) {
        let ttl = self.engine.settings.lease;
        let (mut left, lease) = (time, || async { self.record().await.task.lease_expires_at });
        while !left.is_zero() {
            let (part, before) = (left.min(ttl * 2 / 5), lease().await);
            self.clock.advance_by(part);
            left -= part;
            // A heartbeat comes at a third of the lease.
            if before.is_some() && part > ttl / 3 {
                eventually("a heartbeat", || async {
                    (lease().await != before).then_some(())
                })
                .await;
            }
        }
    }

    /// Runs turns on a host that hangs at the fault, and drops them there: like SIGKILL, nothing is
    /// said to anyone. `false`: the task came to rest before.
    async fn lose_host_at(&self, fault: &Fault, until: Instant) -> bool {
        let mut settings = (*self.engine.settings).clone();
        settings.faults.insert(0, fault.clone());
        let doomed = Engine::new(
            self.engine.ports.clone(),
            self.engine.registry.clone(),
            settings,
            "doomed",
        );
        let id = self.id;
        let running = tokio::spawn(async move {
            loop {
                for host in [Host::Api, Host::Worker] {
                    turn(&doomed, host, id, &CancelToken::new()).await;
                }
                pause().await;
            }
        });
        while fault.struck() == 0 {
            assert!(
                Instant::now() < until,
                "the fault did not strike: {}",
                self.trail().await
            );
            let record = self.record().await;
            if record.task.status.is_at_rest() && fault.struck() == 0 {
                break;
            }
            self.answers.send(&self.engine, &record).await;
            // What it waits for without a host is passed, as without a fault.
            if record.task.status == TaskStatus::Waiting && record.task.lease_expires_at.is_none() {
                self.clock
                    .advance_by(self.until_next_turn(&TurnEnd::GivenBack).await);
            }
            pause().await;
        }
        running.abort();
        let _ = running.await;
        fault.struck() > 0
    }

    /// The task's rows.
    ///
    /// # Panics
    /// When they cannot be read.
    pub async fn record(&self) -> TaskRecord {
        self.engine
            .ports
            .store
            .load(self.id)
            .await
            .expect("the store answers")
            .expect("the task exists")
    }

    /// The task's past.
    ///
    /// # Panics
    /// When it cannot be read.
    pub async fn history(&self) -> History {
        self.engine
            .ports
            .store
            .history(self.id)
            .await
            .expect("the store answers")
    }

    /// The SQLite file of its engine, to look into tables that its steps have written to.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.folder.path().join(DATABASE)
    }

    /// What happened, in words: see [`trail`].
    pub async fn trail(&self) -> String {
        trail::of(&self.record().await, &self.history().await)
    }

    /// The trail is this one.
    ///
    /// # Panics
    /// When it is another one, or an invariant is broken.
    pub async fn assert_trail(&self, expected: &str) {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&self.trail().await), words(expected));
        self.assert_invariants().await;
    }

    /// Everything that the rows alone can show is in order.
    ///
    /// # Panics
    /// When it is not.
    pub async fn assert_invariants(&self) {
        let task_type = self.engine.registry.iter().next().expect("a task type");
        let mut broken =
            invariants::broken(task_type.decl, &self.record().await, &self.history().await);
        broken.extend(
            invariants::found_by_fsck(
                self.engine.ports.store.as_ref(),
                &self.engine.registry,
                self.id,
            )
            .await,
        );
        assert!(
            broken.is_empty(),
            "broken: {}\nin: {}",
            broken.join("; "),
            self.trail().await
        );
    }

    /// All objects of all tasks.
    ///
    /// # Panics
    /// When they cannot be listed.
    pub async fn objects(&self) -> Vec<ObjectInfo> {
        self.engine
            .ports
            .objects
            .list("")
            .try_collect()
            .await
            .expect("the objects are listed")
    }

    /// The object store is empty.
    ///
    /// # Panics
    /// When it is not.
    pub async fn assert_no_objects(&self) {
        assert_eq!(self.objects().await, [], "objects are left");
    }

    /// Sweeps leave only what committed outputs refer to, once the time of all attempts is over. By
    /// the rules of the registry and the default settings of orphans: with others, call
    /// [`orphans::run`] on [`engine`](Self::engine).
    ///
    /// # Panics
    /// When something else stays.
    pub async fn assert_no_orphans(&self) {
        let record = self.record().await;
        let kept = fsck::referenced_keys(&record);
        self.clock.advance(BEYOND_ATTEMPTS);
        eventually("the end of all orphans", || async {
            let plan = orphans::plan(&self.engine, 1000).await.expect("the plan");
            orphans::run(
                &self.engine,
                &OrphanSettings::default(),
                plan,
                &CancelToken::new(),
            )
            .await
            .expect("the sweep");
            let orphans: Vec<_> = self
                .objects()
                .await
                .into_iter()
                .filter(|object| !kept.contains(&object.key))
                .collect();
            orphans.is_empty().then_some(())
        })
        .await;
        let there: Vec<_> = self
            .objects()
            .await
            .into_iter()
            .map(|object| object.key)
            .collect();
        let missing: Vec<_> = kept.iter().filter(|key| !there.contains(key)).collect();
        assert!(
            missing.is_empty(),
            "outputs without their object: {missing:?}"
        );
    }
}
