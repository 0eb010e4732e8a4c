//! Workers that cannot reach the database: what goes on, what is kept in their spool, and what becomes of it when they can
//! again. The database is a file that another process holds the write lock of.

mod contact;
mod resumed;
mod workers;

use counterstep_adapters::embedded::{self, EmbeddedOptions, EmbeddedPaths};
use counterstep_adapters::spool::{FileSpool, Sealing};
use counterstep_adapters::sqlite::SqliteOptions;
use counterstep_contracts::{Epoch, Host, StepStatus, TaskId};
use counterstep_kernel::ports::{Lost, Observation, Ports, Recorder, Spool};
use counterstep_kernel::record::{History, TaskRecord};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_kernel::{Engine, EngineSettings, SealSecrets};
use counterstep_macros::distributed_task;
use counterstep_reconciler::recovery;
use counterstep_steps::{
    CancelToken, Limit, LogLevel, Registry, RetryPolicy, Sql, StepContext, StepError, StepResult,
    UndoResult,
};
use counterstep_testkit::clock::work_for;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, TestClock, form, invariants, trail};
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// The lease of all types here.
const LEASE: &str = "6s";

/// Far beyond it.
const THREE_LEASES: &str = "18s";

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Plan {
    /// How long the first step takes, and what is beside it in a group.
    first_s: u64,
    beside_s: u64,
    /// It fails once.
    fails: bool,
    /// Its steps say where they are.
    logs: bool,
}

const ONCE_MORE: RetryPolicy = RetryPolicy::constant("1s").max_retries(1);

/// Goes on when it is cut off.
struct Drive;

#[distributed_task(name = "Drive", queue = "drives", lease = "6s")]
impl Drive {
    type Request = Plan;
    type Response = i32;

    #[step(1, host = "worker", retry = ONCE_MORE, no_undo = "a drive is over when it is over", when_cut_off = "finish")]
    async fn drive(ctx: &StepContext, plan: &Plan) -> StepResult<i32> {
        work_for(ctx.task_id(), Duration::from_secs(plan.first_s)).await;
        if plan.fails && ctx.attempt().0 == 1 {
            return Err(StepError::transient("a flat tyre"));
        }
        if plan.logs {
            ctx.log(LogLevel::Info, "arrived");
        }
        ctx.in_transaction(Sql::new("INSERT INTO drives VALUES ($1)").bind(ctx.effect_key()));
        Ok(ctx.attempt().0)
    }

    #[step(2, host = "worker", no_undo = "a parked car is no harm")]
    async fn park(ctx: &StepContext, plan: &Plan, drive: &i32) -> StepResult<i32> {
        if plan.logs {
            ctx.log(LogLevel::Info, "parked");
        }
        Ok(*drive)
    }

    fn respond(park: &i32) -> i32 {
        *park
    }
}

/// Stops.
struct Walk;

#[distributed_task(name = "Walk", queue = "drives", lease = "6s")]
impl Walk {
    type Request = Plan;
    type Response = i32;

    #[step(1, host = "worker", no_undo = "a walk is over when it is over")]
    async fn walk(ctx: &StepContext, plan: &Plan) -> StepResult<i32> {
        let work = work_for(ctx.task_id(), Duration::from_secs(plan.first_s));
        match ctx.cancel().run_until_cancelled(work).await {
            Some(()) => Ok(ctx.attempt().0),
            None => Err(StepError::cancelled()),
        }
    }

    fn respond(walk: &i32) -> i32 {
        *walk
    }
}

const ONE_ROPE: Limit = Limit::named("one-rope").at_once(1);

/// Stops, and needs a permit.
struct Climb;

#[distributed_task(name = "Climb", queue = "drives", lease = "6s")]
impl Climb {
    type Request = Plan;
    type Response = i32;

    #[step(1, host = "worker", no_undo = "a climb is over when it is over", limit = ONE_ROPE)]
    async fn climb(ctx: &StepContext, plan: &Plan) -> StepResult<i32> {
        work_for(ctx.task_id(), Duration::from_secs(plan.first_s)).await;
        Ok(ctx.attempt().0)
    }

    fn respond(climb: &i32) -> i32 {
        *climb
    }
}

/// Both, side by side.
struct Tour;

#[distributed_task(name = "Tour", queue = "drives", lease = "6s")]
impl Tour {
    type Request = Plan;
    type Response = (i32, i32);

    #[step(
        1,
        host = "worker",
        group = "tour",
        no_undo = "a tour is over when it is over",
        when_cut_off = "finish"
    )]
    async fn by_car(ctx: &StepContext, plan: &Plan) -> StepResult<i32> {
        work_for(ctx.task_id(), Duration::from_secs(plan.first_s)).await;
        Ok(ctx.attempt().0)
    }

    #[step(
        2,
        host = "worker",
        group = "tour",
        no_undo = "a tour is over when it is over"
    )]
    async fn on_foot(ctx: &StepContext, plan: &Plan) -> StepResult<i32> {
        let work = work_for(ctx.task_id(), Duration::from_secs(plan.beside_s));
        match ctx.cancel().run_until_cancelled(work).await {
            Some(()) => Ok(ctx.attempt().0),
            None => Err(StepError::cancelled()),
        }
    }

    fn respond(by_car: &i32, on_foot: &i32) -> (i32, i32) {
        (*by_car, *on_foot)
    }
}

/// Both, side by side, of which the one that is to stop takes no notice; then one behind them.
struct Outing;

#[distributed_task(name = "Outing", queue = "drives", lease = "6s")]
impl Outing {
    type Request = Plan;
    type Response = i32;

    #[step(
        1,
        host = "worker",
        group = "outing",
        no_undo = "an outing is over when it is over",
        when_cut_off = "finish"
    )]
    async fn ride(ctx: &StepContext, plan: &Plan) -> StepResult<i32> {
        work_for(ctx.task_id(), Duration::from_secs(plan.first_s)).await;
        Ok(ctx.attempt().0)
    }

    #[step(
        2,
        host = "worker",
        group = "outing",
        no_undo = "an outing is over when it is over"
    )]
    async fn sing(ctx: &StepContext, plan: &Plan) -> StepResult<i64> {
        work_for(ctx.task_id(), Duration::from_secs(plan.beside_s)).await;
        Ok(ctx.attempt().0.into())
    }

    #[step(3, host = "worker", no_undo = "home is home")]
    async fn go_home(ctx: &StepContext, ride: &i32) -> StepResult<u8> {
        match ctx.cancel().reason() {
            Some(_) => Err(StepError::cancelled()),
            None => Ok(u8::try_from(*ride).unwrap_or_default()),
        }
    }

    fn respond(go_home: &u8) -> i32 {
        (*go_home).into()
    }
}

/// Two that go on, side by side.
struct Convoy;

#[distributed_task(name = "Convoy", queue = "drives", lease = "6s")]
impl Convoy {
    type Request = Plan;
    type Response = i32;

    #[step(
        1,
        host = "worker",
        group = "convoy",
        no_undo = "a drive is over when it is over",
        when_cut_off = "finish"
    )]
    async fn lead(ctx: &StepContext, plan: &Plan) -> StepResult<i32> {
        work_for(ctx.task_id(), Duration::from_secs(plan.first_s)).await;
        Ok(ctx.attempt().0)
    }

    #[step(
        2,
        host = "worker",
        group = "convoy",
        no_undo = "a drive is over when it is over",
        when_cut_off = "finish"
    )]
    async fn follow(ctx: &StepContext, plan: &Plan) -> StepResult<i64> {
        work_for(ctx.task_id(), Duration::from_secs(plan.beside_s)).await;
        Ok(ctx.attempt().0.into())
    }

    fn respond(lead: &i32, follow: &i64) -> i32 {
        lead + i32::try_from(*follow).unwrap_or_default()
    }
}

/// Is undone when it is cancelled on the way.
struct Ferry;

#[distributed_task(name = "Ferry", queue = "drives", lease = "6s", cancellable)]
impl Ferry {
    type Request = Plan;
    type Response = i32;

    #[step(1, host = "worker", undo = return_trip, when_cut_off = "finish")]
    async fn cross(ctx: &StepContext, plan: &Plan) -> StepResult<i32> {
        work_for(ctx.task_id(), Duration::from_secs(plan.first_s)).await;
        Ok(ctx.attempt().0)
    }

    async fn return_trip(ctx: &StepContext, plan: &Plan) -> UndoResult {
        work_for(ctx.task_id(), Duration::from_secs(plan.first_s)).await;
        ctx.in_transaction(Sql::new("INSERT INTO drives VALUES ($1)").bind(ctx.effect_key()));
        Ok(())
    }

    fn respond(cross: &i32) -> i32 {
        *cross
    }
}

/// What a process has observed, by its text.
#[derive(Debug, Default)]
struct Observed(Mutex<BTreeMap<&'static str, u32>>);

impl Recorder for Observed {
    fn record(&self, observation: Observation<'_>) {
        if let Observation::Spooled(outcome) = observation {
            let mut counts = self.0.lock();
            *counts.entry(outcome.as_str()).or_default() += 1;
        }
    }

    fn write(&self, _: &mut String) {}
}

/// A machine with the files of an installation.
struct Machine {
    folder: TempDir,
    clock: TestClock,
    registry: Arc<Registry>,
    ports: Ports,
}

/// A process on it, with a spool.
struct Process {
    engine: Engine,
    spool: Arc<FileSpool>,
    observed: Arc<Observed>,
}

/// The database does not take a write while this lives.
pub(crate) struct Cut(SqliteConnection);

impl Cut {
    /// Of the database of this connection.
    pub(crate) fn of(mut connection: SqliteConnection) -> Self {
        connection
            .batch_execute("BEGIN IMMEDIATE")
            .expect("the lock");
        Self(connection)
    }
}

/// A connection of one's own to the database in this folder.
pub(crate) fn connect(folder: &Path) -> SqliteConnection {
    let file = folder.join("counterstep.db");
    let mut connection =
        SqliteConnection::establish(file.to_str().expect("UTF-8")).expect("it opens");
    connection
        .batch_execute("PRAGMA busy_timeout = 10000")
        .expect("a limit");
    connection
}

/// As of one installation.
fn sealing() -> Sealing {
    Sealing {
        secrets: SealSecrets::parse(&SealSecrets::line([1, 2])).expect("a secret"),
        accepts_unsealed: false,
    }
}

impl Machine {
    async fn new() -> Self {
        let (folder, clock) = (tempfile::tempdir().expect("a folder"), TestClock::new());
        let registry = Registry::new()
            .with::<Drive>()
            .with::<Walk>()
            .with::<Climb>()
            .with::<Tour>()
            .with::<Ferry>()
            .with::<Outing>()
            .with::<Convoy>();
        let ports = open(&folder, &clock).await;
        let machine = Self {
            folder,
            clock,
            registry: Arc::new(registry),
            ports,
        };
        machine.execute("CREATE TABLE drives (effect TEXT)");
        machine
    }

    fn connect(&self) -> SqliteConnection {
        connect(self.folder.path())
    }

    fn execute(&self, sql: &str) {
        self.connect().batch_execute(sql).expect("it is executed");
    }

    /// How often a drive has had its effect.
    fn drives(&self) -> i64 {
        use diesel::RunQueryDsl;
        use diesel::dsl::sql;
        use diesel::sql_types::BigInt;
        diesel::select(sql::<BigInt>("(SELECT COUNT(*) FROM drives)"))
            .get_result(&mut self.connect())
            .expect("a count")
    }

    fn settings() -> EngineSettings {
        EngineSettings {
            cancel_grace: Duration::from_millis(100),
            step_timeout: Duration::from_secs(600),
            ..EngineSettings::default()
        }
    }

    /// Without a spool, as a reconciler.
    fn other(&self) -> Engine {
        Engine::new(
            self.ports.clone(),
            self.registry.clone(),
            Self::settings(),
            "other",
        )
    }

    fn process(&self) -> Process {
        self.process_with(Self::settings())
    }

    fn process_with(&self, settings: EngineSettings) -> Process {
        let spool = FileSpool::open(
            &self.folder.path().join("spool"),
            1 << 20,
            sealing(),
            &|_| true,
        )
        .expect("a spool");
        let (spool, observed) = (Arc::new(spool), Arc::new(Observed::default()));
        let engine = Engine::new(
            self.ports.clone(),
            self.registry.clone(),
            settings,
            "worker",
        );
        Process {
            engine: engine
                .spooled_by(spool.clone())
                .recorded_by(observed.clone()),
            spool,
            observed,
        }
    }

    async fn submit(&self, form: Form) -> TaskId {
        let task = form::submit(&self.other(), form).await;
        self.clock.runs(task);
        task
    }

    fn cut(&self) -> Cut {
        Cut::of(self.connect())
    }

    /// What a turn has sent before it was killed has arrived.
    async fn until_written(&self) {
        let nothing: TaskId = "00000000-0000-0000-0000-000000000000"
            .parse()
            .expect("an id");
        let sent = self
            .ports
            .store
            .heartbeat(nothing, Epoch(0), Duration::ZERO);
        sent.await.expect("an answer");
    }

    async fn record(&self, task: TaskId) -> TaskRecord {
        let record = self.ports.store.load(task).await.expect("an answer");
        record.expect("the task")
    }

    async fn history(&self, task: TaskId) -> History {
        self.ports.store.history(task).await.expect("an answer")
    }

    async fn trail(&self, task: TaskId) -> String {
        trail::of(&self.record(task).await, &self.history(task).await)
    }

    /// Its trail is this, and its rows are in order.
    async fn assert_trail(&self, task: TaskId, expected: &str) {
        assert_eq!(self.trail(task).await, expected);
        let records = [self.record(task).await];
        let broken = invariants::broken_of_all(&self.other(), &records).await;
        assert!(broken.is_empty(), "{}", broken.join("; "));
    }

    /// Waits until `steps` steps of the task run.
    async fn until_run(&self, task: TaskId, steps: usize) {
        eventually("running steps", || async {
            let record = self.record(task).await;
            let running = record
                .steps
                .iter()
                .filter(|row| row.status == StepStatus::Running);
            (running.count() == steps).then_some(())
        })
        .await;
    }

    /// Lets time pass while a turn has the task, and each time its heartbeat gets through.
    async fn pass_under_lease(&self, task: TaskId, seconds: u32) {
        for _ in 0..seconds / 2 {
            let before = self.record(task).await.task.lease_expires_at;
            self.clock.advance("2s");
            eventually("a heartbeat", || async {
                let row = self.record(task).await.task;
                (row.lease_expires_at != before || row.status.is_at_rest()).then_some(())
            })
            .await;
        }
    }

    /// Takes back what counts as lost, as a reconciler does that has been there all along.
    async fn take_back(&self) -> Vec<TaskId> {
        let engine = self.other();
        let plan = recovery::plan(&engine, Lost::default(), 10).await;
        let plan = plan.expect("a plan");
        recovery::run(&engine, plan, &CancelToken::new())
            .await
            .taken_back
    }
}

/// The adapters of an installation in this folder.
pub(crate) async fn open(folder: &TempDir, clock: &TestClock) -> Ports {
    let paths = EmbeddedPaths {
        database: folder.path().join("counterstep.db"),
        objects: folder.path().join("objects"),
        scratch: folder.path().join("scratch"),
    };
    let options = clock.embedded();
    let options = EmbeddedOptions {
        sqlite: SqliteOptions {
            // A write that another process is in the way of fails at once.
            busy_timeout: Duration::from_millis(20),
            ..options.sqlite
        },
        ..options
    };
    embedded::open(paths, options).await.expect("it opens")
}

impl Drop for Cut {
    fn drop(&mut self) {
        self.0
            .batch_execute("ROLLBACK")
            .expect("the lock is let go");
    }
}

impl Process {
    fn turn(&self, task: TaskId) -> tokio::task::JoinHandle<TurnEnd> {
        let engine = self.engine.clone();
        tokio::spawn(async move { turn(&engine, Host::Worker, task, &CancelToken::new()).await })
    }

    /// Waits until the spool has `results` results.
    async fn until_keeps(&self, results: u64) {
        eventually("results in the spool", || async {
            (self.spool.stats().entries == results).then_some(())
        })
        .await;
    }

    fn observed(&self) -> Vec<(&'static str, u32)> {
        let counts = self.observed.0.lock();
        counts.iter().map(|(what, count)| (*what, *count)).collect()
    }
}
