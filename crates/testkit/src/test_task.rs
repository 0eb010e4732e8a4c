//! A task under test: it is given turns until it rests, and looked at.

use crate::answers::Answers;
use crate::clock::TestClock;
use crate::site::{eventually, pause};
use crate::{database, invariants, trail};
use counterstep_contracts::{Host, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::Engine;
use counterstep_kernel::faults::Fault;
use counterstep_kernel::ports::{Lost, ObjectInfo};
use counterstep_kernel::record::{History, TaskRecord};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_reconciler::{OrphanSettings, fsck, orphans, recovery};
use counterstep_steps::CancelToken;
use futures::TryStreamExt;
use serde_json::Value;
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
    /// Its id.
    pub id: TaskId,
    /// The time of its engine and its database.
    pub clock: TestClock,
    pub(crate) crash_at: Option<Fault>,
    pub(crate) answers: Answers,
    pub(crate) folder: TempDir,
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
        let record = self.record().await;
        let task_type = self
            .engine
            .registry
            .get(&record.task.task_type, record.task.version)
            .expect("a known type");
        let mut broken = invariants::broken(task_type.decl, &record, &self.history().await);
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
