//! A task under test, with those below it: they are given turns until they rest, and looked at.

use crate::answers::Answers;
use crate::clock::TestClock;
use crate::form::accepted;
use crate::many_tasks::{eventually, pause};
use crate::planted::{Before, Engines, MustStrike, Planted, in_words};
use crate::task_tree::{self, Idle, Until};
use crate::{database, invariants, trail};
use counterstep_contracts::{Direction, Host, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::operator::{self, Retrial};
use counterstep_kernel::ports::{Lost, ObjectInfo};
use counterstep_kernel::record::{History, TaskRecord};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_kernel::{Engine, client};
use counterstep_reconciler::{OrphanSettings, fsck, orphans, recovery};
use counterstep_steps::CancelToken;
use futures::TryStreamExt;
use serde_json::Value;
use std::collections::BTreeSet;
use std::future::Future;
use std::panic::Location;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A task that has not come to rest after this long never will.
const LIMIT: Duration = Duration::from_secs(60);

/// Beyond what an attempt may take, its grace and its lease: what it has left is an orphan then.
const BEYOND_ATTEMPTS: &str = "1d";

/// A submitted task under test.
#[derive(Debug)]
pub struct TestTask {
    /// Its engine.
    pub engine: Engine,
    /// Id of the task.
    pub id: TaskId,
    /// The time of its engine and its database.
    pub clock: TestClock,
    pub(crate) planted: Vec<Planted>,
    pub(crate) before: Vec<Before>,
    pub(crate) answers: Answers,
    pub(crate) folder: TempDir,
    pub(crate) _must_strike: MustStrike,
}

/// How a run of a task and of those below it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// The task rests, and nothing goes on below it.
    Rests(TaskStatus),
    /// It waits for tasks below it that are parked: these, as text.
    Parked(String),
    /// It came to rest before the fault struck that its host was to be lost at.
    Missed,
}

/// The end of a run in which no task can go on now; `None`: time passes, or the test may send a
/// signal.
fn over(family: &[TaskRecord], waits: &[Until]) -> Option<RunEnd> {
    let status = family[0].task.status;
    match Idle::of(waits) {
        Idle::Pass(_) => None,
        Idle::Look | Idle::Nothing if status.is_at_rest() => Some(RunEnd::Rests(status)),
        Idle::Nothing => task_tree::parked(family).map(RunEnd::Parked),
        Idle::Look => None,
    }
}

impl TestTask {
    /// Gives turns to the task and to all tasks below it, on both kinds of host, and recovers those
    /// whose host was lost, until they rest. What they wait for between two turns is passed at once,
    /// when none of them can go on before: a retry, a timer, a breaker, the lease of a lost host. A
    /// signal is sent as the form plans it, or waited for.
    ///
    /// # Panics
    /// When it does not come to rest. At once where it waits for tasks below it that are parked: the
    /// message says which, and why. [`run_to_parked`](Self::run_to_parked) expects them.
    pub async fn run_to_rest(&self) -> TaskStatus {
        match self.run().await {
            RunEnd::Rests(status) => status,
            RunEnd::Parked(parked) => panic!(
                "the task waits for tasks that only a person can move on: {parked}\nin: {}",
                self.trails().await
            ),
            RunEnd::Missed => panic!(
                "the task rests before the fault struck: {}\nin: {}",
                self.missed().unwrap_or_default(),
                self.trails().await
            ),
        }
    }

    /// The first fault that a host was to be lost at and that has not struck.
    fn missed(&self) -> Option<String> {
        let mut lost = self.before.iter().filter_map(|it| match it {
            Before::Lost(at) => Some(&at.fault),
            Before::Cancelled | Before::Undone => None,
        });
        lost.find(|fault| fault.struck() == 0).map(in_words)
    }

    /// The same until nothing goes on without a person: gives the rows of the tasks that are parked.
    ///
    /// # Panics
    /// When none of them is.
    pub async fn run_to_parked(&self) -> Vec<TaskRecord> {
        let end = self.run().await;
        let mut family = self.family().await;
        family.retain(|record| record.task.status.is_parked());
        assert!(
            !family.is_empty(),
            "no task is parked: {end:?}\nin: {}",
            self.trails().await
        );
        family
    }

    pub(crate) async fn run(&self) -> RunEnd {
        let until = Instant::now() + LIMIT;
        for before in &self.before {
            match before {
                Before::Lost(at) if !self.lose_host_at(at, until).await => return RunEnd::Missed,
                Before::Lost(_) => {}
                Before::Cancelled => {
                    let cancelled = client::cancel(&self.engine, self.id, "client").await;
                    accepted("the cancel", cancelled);
                }
                Before::Undone => {
                    let parked = RunEnd::Rests(TaskStatus::DeadLettered);
                    let end = self.run_from_here(until).await;
                    assert_eq!(end, parked, "only a parked task is undone by a person");
                    let undo = Retrial {
                        direction: Some(Direction::Undo),
                        edit: None,
                        actor: "operator".to_owned(),
                        note: "it is to be undone".to_owned(),
                        bulk: None,
                    };
                    let undone = operator::retry(&self.engine, self.id, undo).await;
                    accepted("the decision to undo it", undone);
                }
            }
        }
        self.run_from_here(until).await
    }

    async fn run_from_here(&self, until: Instant) -> RunEnd {
        let engines = Engines::with(&self.engine, &self.planted, &self.engine.id);
        loop {
            let family = self.family().await;
            self.answer(&family).await;
            let mut waits = self.waits(&family);
            self.assert_before(until, "the task does not come to rest")
                .await;
            let mut moved = false;
            for (record, until) in family.iter().zip(&mut waits) {
                if *until != Until::Now {
                    continue;
                }
                let (row, engine) = (&record.task, engines.of(&record.task.task_type));
                match turn(engine, row.host, row.id, &CancelToken::new()).await {
                    TurnEnd::Rests(_) | TurnEnd::GivenBack => moved = true,
                    TurnEnd::Busy(left) | TurnEnd::NoRoom(left) => *until = Until::Time(left),
                    _ => *until = Until::Time(Duration::ZERO),
                }
            }
            if moved || task_tree::wake_parents(&self.engine, &waits).await {
                continue;
            }
            if let Some(end) = over(&family, &waits) {
                return end;
            }
            match Idle::of(&waits) {
                Idle::Pass(left) if !left.is_zero() => self.clock.advance_by(left),
                Idle::Pass(_) | Idle::Look | Idle::Nothing => pause().await,
            }
            let plan = recovery::plan(&self.engine, Lost::default(), 10)
                .await
                .expect("the plan");
            recovery::run(&self.engine, plan, &CancelToken::new()).await;
        }
    }

    /// Where hosts have been lost before, others take their tasks over.
    async fn pass_lost_leases(&self) {
        let family = self.family().await;
        let leases = family.iter().filter_map(|record| {
            let lease = record.task.lease_expires_at?;
            Some(lease.after(record.now))
        });
        if let Some(longest) = leases.max() {
            self.clock.advance_by(longest);
        }
    }

    async fn answer(&self, family: &[TaskRecord]) {
        for record in family {
            self.answers.send(&self.engine, record).await;
        }
    }

    fn waits(&self, family: &[TaskRecord]) -> Vec<Until> {
        let wait = |record| Until::of(record, &self.answers);
        family.iter().map(wait).collect()
    }

    async fn assert_before(&self, until: Instant, what: &str) {
        assert!(Instant::now() < until, "{what}: {}", self.trails().await);
    }

    /// Gives turns to the task and to all tasks below it, on both kinds of host, until it waits for a
    /// time or a signal, or for tasks below it none of which can go on now.
    ///
    /// # Panics
    /// When it comes to rest instead.
    pub async fn run_to_wait(&self) -> TaskRecord {
        let engines = Engines::with(&self.engine, &self.planted, &self.engine.id);
        eventually("the task waits", || async {
            let mut family = self.family().await;
            let waits = self.waits(&family);
            let row = &family[0].task;
            let can_go = |(record, until): (&TaskRecord, &Until)| {
                *until == Until::Now || record.task.lease_owner.is_some()
            };
            let for_others =
                row.waiting == Some(WaitReason::Children) && family.iter().zip(&waits).any(can_go);
            if row.status == TaskStatus::Waiting && !for_others {
                return Some(family.swap_remove(0));
            }
            assert!(
                !row.status.is_at_rest(),
                "it rests and never waited: {}",
                self.trails().await
            );
            for (record, _) in family.iter().zip(&waits).filter(|it| *it.1 == Until::Now) {
                let (row, engine) = (&record.task, engines.of(&record.task.task_type));
                turn(engine, row.host, row.id, &CancelToken::new()).await;
            }
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
    async fn lose_host_at(&self, crash: &Planted, until: Instant) -> bool {
        self.pass_lost_leases().await;
        let planted: Vec<_> = [crash].into_iter().chain(&self.planted).cloned().collect();
        let doomed = Engines::with(&self.engine, &planted, "doomed");
        let (engine, clock, id) = (self.engine.clone(), self.clock.clone(), self.id);
        let running = tokio::spawn(async move {
            loop {
                for record in task_tree::of(&engine, id).await {
                    let row = &record.task;
                    clock.runs(row.id);
                    for host in [Host::Api, Host::Worker] {
                        turn(doomed.of(&row.task_type), host, row.id, &CancelToken::new()).await;
                    }
                }
                pause().await;
            }
        });
        let fault = &crash.fault;
        while fault.struck() == 0 {
            self.assert_before(until, "the fault did not strike").await;
            if let Some(family) = task_tree::at_one_moment(&self.engine, id).await {
                self.answer(&family).await;
                let waits = self.waits(&family);
                let held = |record: &TaskRecord| record.task.lease_owner.is_some();
                // What they wait for without a host is passed, as without a fault.
                if !family.iter().any(held)
                    && !waits.contains(&Until::Now)
                    && !task_tree::wake_parents(&self.engine, &waits).await
                {
                    if over(&family, &waits).is_some() {
                        break;
                    }
                    if let Idle::Pass(left) = Idle::of(&waits) {
                        self.clock.advance_by(left);
                    }
                }
            }
            pause().await;
        }
        running.abort();
        let _ = running.await;
        fault.struck() > 0
    }

    /// The rows of the task, and of all tasks below it: each behind the one that has submitted it.
    ///
    /// # Panics
    /// When they cannot be read.
    pub async fn family(&self) -> Vec<TaskRecord> {
        let family = task_tree::of(&self.engine, self.id).await;
        for record in &family {
            self.clock.runs(record.task.id);
        }
        family
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

    /// The SQLite file of its engine.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        database::file_in(self.folder.path())
    }

    /// What a query finds in tables of one's own, which its steps have written to: each row a JSON
    /// object by the names of the columns, bytes as a list of numbers.
    ///
    /// # Panics
    /// When it cannot be executed.
    #[must_use]
    pub fn rows(&self, query: &str) -> Vec<Value> {
        database::rows(self.folder.path(), query)
    }

    /// What happened, as text: see [`trail`].
    pub async fn trail(&self) -> String {
        trail::of(&self.record().await, &self.history().await)
    }

    /// The same, followed by what happened to each task below it.
    async fn trails(&self) -> String {
        let mut trails = vec![self.trail().await];
        for record in self.family().await.iter().skip(1) {
            let (row, store) = (&record.task, &self.engine.ports.store);
            let history = store.history(row.id).await.expect("the store answers");
            let trail = trail::of(record, &history);
            trails.push(format!("{} {}: {trail}", row.task_type, row.id));
        }
        trails.join("\n")
    }

    /// The trail is this one: `reserve ok, charge failed, charge undone, reserve undone, failed`.
    ///
    /// Behind a step's name: `ok`, `failed`, `retries`, `skipped`, `undone`, `waived` (it is declared with `no_undo`), and
    /// the rarer ones that [`trail`] lists; the state in which the task comes to rest ends it.
    ///
    /// # Panics
    /// When it is another one, or an invariant is broken.
    #[track_caller]
    pub fn assert_trail(&self, expected: &str) -> impl Future<Output = ()> {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        // An `async fn` does not know its caller.
        let (caller, expected) = (Location::caller(), words(expected));
        async move {
            let happened = words(&self.trail().await);
            assert!(
                happened == expected,
                "{caller}: another trail\nexpected: {expected}\nhappened: {happened}"
            );
            self.assert_invariants().await;
        }
    }

    /// Everything that the rows alone can show is in order, also of all tasks below it.
    ///
    /// # Panics
    /// When it is not.
    pub async fn assert_invariants(&self) {
        let broken = invariants::broken_of_all(&self.engine, &self.family().await).await;
        assert!(
            broken.is_empty(),
            "broken: {}\nin: {}",
            broken.join("; "),
            self.trails().await
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

    /// Sweeps leave only what committed outputs refer to, once the time of all attempts is over: those
    /// of the task and of all tasks below it. By
    /// the rules of the registry and the default settings of orphans: with others, call
    /// [`orphans::run`] on [`engine`](Self::engine).
    ///
    /// # Panics
    /// When something else stays.
    pub async fn assert_no_orphans(&self) {
        let family = self.family().await;
        let kept: BTreeSet<_> = family.iter().flat_map(fsck::referenced_keys).collect();
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
