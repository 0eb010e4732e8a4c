//! The world of a run: its database, its processes and its clients, from the first request until all is at rest.

use super::choice::Choice;
use super::executions::Executions;
use super::executor::{Bag, Order, Tasks};
use super::faults::{FaultId, Faults};
use super::machine::Machine;
use super::trace::Trace;
use super::watch::Watch;
use crate::invariants;
use counterstep_adapters::blocking_calls::BlockingCalls;
use counterstep_adapters::sqlite::{SqliteOptions, SqliteStore};
use counterstep_contracts::{Limit, TaskId};
use counterstep_kernel::change::transition::{Guard, LeaseChange, Transition};
use counterstep_kernel::ports::{CommitError, Committed, Storage, Store, StoreError};
use counterstep_kernel::record::{AttemptMark, Intention};
use counterstep_steps::Registry;
use counterstep_steps::keys::ObjectKey;
use futures::FutureExt;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// What a seed has chosen.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) workers: u32,
    pub(super) apis: u32,
    /// Tasks that a process runs at a time.
    pub(super) concurrency: usize,
    pub(super) tasks: u32,
    pub(super) lease: Duration,
    /// While requests come and faults strike.
    pub(super) faults_for: Duration,
    pub(super) order: Order,
    pub(super) clocks_drift: bool,
    pub(super) has_spool: bool,
    pub(super) has_events: bool,
    /// All processes run on the machine of the database, each with a connection of its own, and its calendar is set.
    pub(super) is_one_machine: bool,
    /// How long a client may take to send a request.
    pub(super) upload_timeout: Duration,
    /// Processes come and go between an older program and this one.
    pub(super) rolls: bool,
    pub(super) operators: u32,
}

impl Options {
    pub(super) fn of(seed: u64) -> Self {
        let mut choice = Choice::of(seed, "options");
        let faults_for = choice.within(15, 40);
        let options = Self {
            workers: choice.within(1, 3) as u32,
            apis: choice.within(1, 2) as u32,
            concurrency: choice.within(1, 4) as usize,
            tasks: choice.within(1, 6) as u32,
            // The one that is shipped, now and then: most faults are over before it ends.
            lease: Duration::from_secs(match choice.chance(100) {
                true => 30,
                false => choice.within(2, 6),
            }),
            faults_for: Duration::from_secs(faults_for),
            order: *choice.one_of(&[Order::Any, Order::Any, Order::Priorities]),
            clocks_drift: choice.chance(500),
            has_spool: choice.chance(500),
            has_events: choice.chance(300),
            is_one_machine: false,
            upload_timeout: Duration::from_secs(*choice.one_of(&[1, 8])),
            rolls: choice.chance(300),
            operators: choice.below(3) as u32,
        };
        // A machine has one clock.
        let is_one_machine = choice.chance(250);
        Self {
            is_one_machine,
            clocks_drift: options.clocks_drift && !is_one_machine,
            ..options
        }
    }
}

/// What all parts of a run share.
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) options: Options,
    pub(super) faults: Faults,
    pub(super) trace: Trace,
    pub(super) tasks: Tasks,
    /// Of the world itself: never paused.
    pub(super) bag: Bag,
    pub(super) watch: Watch,
    pub(super) executions: Executions,
    pub(super) registry: Arc<Registry>,
    /// What an older program has.
    pub(super) older: Option<Arc<Registry>>,
    pub(super) store: Store,
    storage: Arc<dyn Storage>,
    database: String,
    pub(super) machine: Machine,
    began: Instant,
    is_healed: AtomicBool,
    outage_ends: Mutex<Option<Duration>>,
    draws: Mutex<BTreeMap<&'static str, Choice>>,
    /// Processes that the code of a step has ended, by name.
    killed: Mutex<Vec<String>>,
    /// Starts of processes, by what leases name them.
    pub(super) owners: Mutex<BTreeMap<String, Bag>>,
    pub(super) kills: Notify,
    /// Changes that the database still works on.
    later: AtomicU64,
}

/// The adapter takes a calendar that is ahead by less for corrected.
const TOLERANCE: Duration = Duration::from_millis(2_100);

/// Who writes a change, and by which connection.
#[derive(Debug, Clone)]
pub(super) struct By {
    pub(super) process: String,
    pub(super) storage: Arc<dyn Storage>,
}

/// Databases of this process, each of which has a name.
static DATABASES: AtomicU64 = AtomicU64::new(0);

fn open(name: &str, machine: &Machine) -> Arc<dyn Storage> {
    let sqlite = SqliteOptions {
        clock: Arc::new(machine.clone()),
        blocking: BlockingCalls::Inline,
        // One more than lists may take: a transaction here ends where it begins, so that none waits for another.
        readers: 2,
        ..SqliteOptions::default()
    };
    // Nothing in it waits: each call is made where it stands.
    let store = SqliteStore::in_memory(name, sqlite).now_or_never();
    let store = store.expect("it does not wait");
    Arc::new(store.expect("a database in memory"))
}

/// The tasks that these changes write, with those that they submit.
fn tasks_of(changes: &[Arc<Transition>]) -> Vec<TaskId> {
    let mut tasks = Vec::new();
    for change in changes {
        tasks.extend(change.children.iter().map(|child| child.task_id));
        tasks.extend(change.task.as_ref().map(|_| change.task_id));
    }
    tasks
}

impl World {
    pub(super) async fn new(
        seed: u64,
        options: Options,
        only: Option<BTreeSet<FaultId>>,
        keeps: bool,
        registry: Arc<Registry>,
        older: Option<Arc<Registry>>,
    ) -> Self {
        let machine = Machine::new(Instant::now());
        let database = format!("simulated {}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let storage = open(&database, &machine);
        let (tasks, rolls) = (Tasks::default(), options.rolls);
        Self {
            seed,
            options,
            faults: Faults::of(seed, only),
            trace: Trace::new(keeps),
            bag: tasks.bag(),
            tasks,
            watch: Watch::default(),
            executions: Executions::default(),
            registry,
            older: older.filter(|_| rolls),
            store: Store::new(storage.clone()),
            storage,
            database,
            began: machine.began,
            machine,
            is_healed: AtomicBool::new(false),
            outage_ends: Mutex::default(),
            draws: Mutex::default(),
            killed: Mutex::default(),
            owners: Mutex::default(),
            kills: Notify::new(),
            later: AtomicU64::new(0),
        }
    }

    /// Since the begin of the run.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn calendar(&self) -> Duration {
        self.machine.calendar_now()
    }

    /// What a process opens: one server for all, or a connection of its own to the file.
    pub(super) fn connect(&self) -> Arc<dyn Storage> {
        match self.options.is_one_machine {
            true => open(&self.database, &self.machine),
            false => self.storage.clone(),
        }
    }

    /// The limit of a step.
    pub(super) fn limit_of(&self, task: TaskId, step: &str) -> Option<Limit> {
        let (name, version) = self.watch.type_of(task)?;
        let steps = self.registry.get(&name, version)?.decl.steps;
        steps.iter().find(|it| it.name == step)?.limit
    }

    /// More executions than a limit has permits: those whose permit is lost have to end now.
    pub(super) fn is_kept_soon(self: &Arc<Self>, limit: &'static str, most: usize) {
        let (world, since) = (self.clone(), self.now());
        let look = async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let all = world
                .executions
                .are_too_many(limit, most, since, world.now());
            all.into_iter().for_each(|all| world.watch.fails(all));
        };
        self.tasks.start(self.bag, Box::pin(look));
    }

    /// A step is executed anew while another process is still busy with it: that has to end now.
    pub(super) fn ends_soon(self: &Arc<Self>, older: u64, newer: u64) {
        let world = self.clone();
        let look = async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let both = world.executions.both_run(older, newer, world.now());
            both.into_iter().for_each(|both| world.watch.fails(both));
        };
        self.tasks.start(self.bag, Box::pin(look));
    }

    /// Nothing goes wrong from now on.
    pub(super) fn heal(&self) {
        self.is_healed.store(true, Ordering::Relaxed);
        *self.outage_ends.lock() = None;
        self.note("healed", || "nothing goes wrong from now on".to_owned());
    }

    pub(super) fn is_healed(&self) -> bool {
        self.is_healed.load(Ordering::Relaxed)
    }

    /// The database answers no process for this long.
    pub(super) fn go_out(&self, lasts: Duration) {
        *self.outage_ends.lock() = Some(self.now() + lasts);
    }

    /// How much longer an outage of the database lasts; `None`: there is none.
    pub(super) fn outage(&self) -> Option<Duration> {
        let ends = *self.outage_ends.lock();
        ends?.checked_sub(self.now()).filter(|left| !left.is_zero())
    }

    /// A process is to be killed: it runs code that takes it along.
    pub(super) fn kill(&self, process: &str) {
        self.killed.lock().push(process.to_owned());
        self.kills.notify_one();
    }

    /// Those that are to be killed.
    pub(super) fn take_killed(&self) -> Vec<String> {
        std::mem::take(&mut self.killed.lock())
    }

    /// One of so many, from the stream of this name.
    pub(super) fn draw(&self, name: &'static str, of: usize) -> usize {
        let mut draws = self.draws.lock();
        let choice = draws
            .entry(name)
            .or_insert_with(|| Choice::of(self.seed, name));
        usize::try_from(choice.below(of as u64)).unwrap_or_default()
    }

    /// Notes an event that is no process's.
    pub(super) fn note(&self, what: impl std::hash::Hash, line: impl FnOnce() -> String) {
        self.trace
            .note(self.now(), what, || format!("{:14} {}", "world", line()));
    }

    /// Writes changes, which go on when their caller is gone, as a server does.
    pub(super) async fn commit(
        self: &Arc<Self>,
        by: By,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        let changes = changes.to_vec();
        let (answer, answered) = oneshot::channel();
        let world = self.clone();
        self.tasks.start(
            self.bag,
            Box::pin(async move {
                // An error: the caller is gone.
                let _ = answer.send(world.write(&by, guard, &changes).await);
            }),
        );
        answered
            .await
            .unwrap_or_else(|_| Err(StoreError::Unknown("the simulation ends".to_owned()).into()))
    }

    /// Writes them after so many milliseconds, if they may be written then.
    pub(super) fn commit_later(
        self: &Arc<Self>,
        by: By,
        guard: Guard,
        changes: Vec<Arc<Transition>>,
        after: u64,
    ) {
        let world = self.clone();
        let by = By {
            process: format!("{}, late,", by.process),
            ..by
        };
        self.later.fetch_add(1, Ordering::Relaxed);
        self.tasks.start(
            self.bag,
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(after)).await;
                let written = world.write(&by, guard, &changes).await;
                world.later.fetch_sub(1, Ordering::Relaxed);
                if written.is_ok() {
                    world.watch.reached("written late");
                }
            }),
        );
    }

    /// Whether the database still works on changes whose callers wait no longer.
    pub(super) fn works_on(&self) -> bool {
        self.later.load(Ordering::Relaxed) > 0
    }

    async fn write(
        &self,
        By { process, storage }: &By,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        let machine = self.machine.timer();
        let mut leases = Vec::new();
        for change in changes {
            leases.extend(self.lease_that_is_taken(guard, change).await);
        }
        let lost = self.owners_that_lose(changes);
        let written = storage.commit(guard, changes).await;
        if written.is_ok() {
            leases.into_iter().for_each(|live| self.watch.fails(live));
        }
        for change in changes {
            let rev = change.task.as_ref().map(|task| task.row.rev.0);
            let what = (process, change.task_id.0, rev, written.is_ok());
            self.trace.note(self.now(), what, || {
                let line = super::watch::line_of(change, written.as_ref().err());
                format!("{process:14} {line}")
            });
        }
        match &written {
            Ok(_) => {
                for owner in lost {
                    let bag = self.owners.lock().get(&owner).copied();
                    if bag.is_some_and(|bag| self.tasks.is_paused(bag)) {
                        self.watch.reached("taken back while paused");
                    }
                }
                for change in changes {
                    self.watch.committed(change, self.now(), machine);
                }
                for task in tasks_of(changes) {
                    self.check(task).await;
                }
            }
            Err(CommitError::Fenced { .. }) => self.watch.reached("fenced"),
            Err(CommitError::Stale) => self.watch.reached("stale"),
            Err(CommitError::Condemned) => self.watch.reached("condemned under a live upload"),
            Err(_) => {}
        }
        written
    }

    /// The processes from which these changes take a task.
    fn owners_that_lose(&self, changes: &[Arc<Transition>]) -> Vec<String> {
        let takes =
            |it: &&Arc<Transition>| it.audit.iter().any(|entry| entry.event == "taken_back");
        let taken = changes.iter().filter(takes);
        taken
            .filter_map(|it| Some(self.watch.lease_of(it.task_id)?.0))
            .collect()
    }

    /// What is wrong once a change is written that takes a task whose lease another process holds.
    async fn lease_that_is_taken(&self, guard: Guard, change: &Transition) -> Option<String> {
        let write = change.task.as_ref()?;
        let claims = matches!(write.lease, LeaseChange::Take { .. });
        if !matches!(guard, Guard::Free { .. }) || !(claims || write.needs_expired_lease) {
            return None;
        }
        // What is left of it by the timer, whatever the calendar was set to: but for what time servers may correct.
        if let Some((owner, until)) = self.watch.lease_before(change.task_id, write.row.rev)
            && until > self.machine.timer() + TOLERANCE
        {
            return Some(format!(
                "8: task {} is taken at revision {}, {:?} before the lease of {owner} is over",
                change.task_id,
                write.row.rev,
                until - self.machine.timer()
            ));
        }
        if self.options.is_one_machine {
            return None;
        }
        let record = self.store.load(change.task_id).await.ok()??;
        let task = &record.task;
        let is_live = task.lease_owner.is_some() && task.lease_expires_at > Some(record.now);
        is_live.then(|| {
            format!(
                "8: task {} is taken at revision {}, while {} holds its lease",
                task.id,
                write.row.rev,
                task.lease_owner.as_deref().unwrap_or_default()
            )
        })
    }

    /// What must hold of a task at any time.
    async fn check(&self, task: TaskId) {
        let record = self.store.load(task).await;
        let Ok(Some(record)) = record else {
            self.watch
                .fails(format!("6: task {task} cannot be read: {record:?}"));
            return;
        };
        let history = self.store.history(task).await;
        let Ok(history) = history else {
            self.watch.fails(format!(
                "6: the journal of task {task} cannot be read: {history:?}"
            ));
            return;
        };
        // Another change came between: it is looked at itself.
        let last = history.audit.last().map(|row| row.change_id);
        if last != Some(record.task.change_id) {
            return;
        }
        let Some(of) = self
            .registry
            .get(&record.task.task_type, record.task.version)
        else {
            return;
        };
        for broken in invariants::broken(of.decl, &record, &history) {
            self.watch.fails(format!("{broken} (task {task})"));
        }
    }

    /// 4: objects of an attempt are deleted once no success can keep them.
    pub(super) async fn check_deleted(&self, prefix: &str) {
        let Some(key) = ObjectKey::parse(&format!("{prefix}0")) else {
            return;
        };
        let Ok(Some(record)) = self.store.load(key.task).await else {
            return;
        };
        let is_it = |mark: &&AttemptMark| {
            let step = record.steps.iter().find(|row| row.no == mark.step);
            step.is_some_and(|row| row.name == key.step)
                && (mark.epoch, mark.attempt) == (key.epoch, key.attempt)
        };
        let may_be_kept = |mark: &&AttemptMark| match mark.objects {
            Intention::Kept => true,
            // One that has ended keeps nothing any more.
            Intention::Open => mark.runs,
            Intention::Condemned | Intention::Swept => false,
        };
        let mark = record.marks.iter().find(is_it);
        if let Some(mark) = mark.filter(may_be_kept) {
            self.watch.fails(format!(
                "4: {prefix} is deleted, and its objects are {:?}",
                mark.objects
            ));
        }
    }
}
