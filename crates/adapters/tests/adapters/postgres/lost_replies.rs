//! A network that loses the replies to commits: each change is written once, its author finds that
//! out and goes on, and no lease is left without a worker. Every commit of every story below loses
//! its reply once.

mod take_backs;

use super::{database, number, open, options, raw};
use crate::suite::{LIMIT, eventually};
use counterstep_contracts::SettledAs;
use counterstep_contracts::{TaskId, TaskStatus, Tenant, WaitReason};
use counterstep_kernel::client;
use counterstep_kernel::client::SubmitError;
use counterstep_kernel::operator;
use counterstep_kernel::operator::Resolution;
use counterstep_kernel::ports::{Ports, Store, StoreError, TaskQuery};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::schedule;
use counterstep_kernel::schedule::ScheduleError;
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_steps::{
    AwaitSignal, CancelToken, Registry, RetryPolicy, Sql, StepContext, StepError, StepResult,
    UndoResult, UploadMany, UploadedFile,
};
use counterstep_testkit::servers::{Proxy, is_commit, shared_postgres};
use counterstep_testkit::{Form, LossyQueue, form, invariants};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    files: Vec<UploadedFile>,
    fate: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Name(String);

pub(crate) const SOON: RetryPolicy = RetryPolicy::constant("1ms").max_retries(1);

pub(crate) struct Parcel;

#[distributed_task(name = "Parcel", queue = "parcels", cancellable)]
impl Parcel {
    type Request = Order;
    type Response = String;

    #[step(1, host = "api")]
    fn keep(order: &Order) -> UploadMany {
        UploadMany::to("parcels", &order.files)
    }

    #[step(2, host = "worker", undo = unpack)]
    async fn pack(ctx: &StepContext) -> StepResult<u32> {
        ctx.in_transaction(
            Sql::new("INSERT INTO ledger (entry) VALUES ($1)")
                .bind(ctx.effect_key())
                .rows(1),
        );
        Ok(1)
    }

    async fn unpack(_ctx: &StepContext, _out: Option<u32>, order: &Order) -> UndoResult {
        if order.fate == "stuck" {
            Err(StepError::permanent("it is glued"))
        } else {
            Ok(())
        }
    }

    #[step(3, host = "worker")]
    fn approval(_order: &Order) -> AwaitSignal<Name> {
        AwaitSignal::within("1h")
    }

    #[step(4, host = "worker", retry = SOON, no_undo = "a letter is gone")]
    async fn send(ctx: &StepContext, order: &Order) -> StepResult<bool> {
        match (&*order.fate, ctx.attempt().0) {
            ("arrives", 1) => Err(StepError::transient("no one at home")),
            ("arrives", _) => Ok(true),
            _ => Err(StepError::permanent("no such address")),
        }
    }

    fn respond(approval: &Name) -> String {
        approval.0.clone()
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Nothing {}

pub(crate) struct Tick;

#[distributed_task(name = "Tick", queue = "ticks")]
impl Tick {
    type Request = Nothing;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "it only counts")]
    async fn count() -> StepResult<u32> {
        Ok(1)
    }

    fn respond(count: &u32) -> u32 {
        *count
    }
}

/// An engine behind a proxy, and the database as it is.
pub(super) struct Stage {
    pub(super) engine: Engine,
    pub(super) direct: Store,
    pub(super) url: String,
    pub(super) proxy: Proxy,
    _folder: TempDir,
}

impl Stage {
    pub(super) async fn of(registry: Registry) -> Self {
        let url = database().await;
        raw(&url)
            .await
            .batch_execute("CREATE TABLE ledger (entry TEXT PRIMARY KEY)")
            .await
            .expect("a table");
        let proxy = Proxy::to(shared_postgres().port());
        let (store, direct) = (
            open(&proxy.url(&url), options()).await,
            open(&url, options()).await,
        );
        let embedded = crate::embedded::fixture().await;
        let ports = Ports {
            store,
            queue: Arc::<LossyQueue>::default(),
            ..embedded.ports
        };
        let engine = Engine::new(ports, Arc::new(registry), EngineSettings::default(), "test");
        Self {
            engine,
            direct,
            url,
            proxy,
            _folder: embedded.folder,
        }
    }

    /// Loses the reply to this commit from now on, counted from 1. Gives the counter.
    pub(super) fn lose(&self, nth: u32) -> Arc<AtomicU32> {
        let seen = Arc::new(AtomicU32::new(0));
        let counter = seen.clone();
        self.proxy.lose_replies(1, move |text| {
            is_commit(text) && counter.fetch_add(1, Ordering::SeqCst) + 1 == nth
        });
        seen
    }

    async fn record(&self, task: TaskId) -> TaskRecord {
        self.direct
            .load(task)
            .await
            .expect("an answer")
            .expect("a task")
    }

    /// Turns until the task rests, or waits for its signal.
    pub(super) async fn drive(&self, task: TaskId) -> TaskStatus {
        loop {
            let record = self.record(task).await;
            let (row, is_due) = (&record.task, record.due_in().is_zero());
            if row.status.is_at_rest() || (row.waiting == Some(WaitReason::Signal) && !is_due) {
                return row.status;
            }
            let end = turn(&self.engine, row.host, task, &CancelToken::new()).await;
            assert!(
                matches!(end, TurnEnd::Rests(_) | TurnEnd::GivenBack),
                "a turn ended as {end:?}"
            );
        }
    }

    pub(super) async fn tasks(&self) -> usize {
        let query = TaskQuery {
            limit: 1000,
            ..TaskQuery::default()
        };
        self.direct
            .list(&query)
            .await
            .expect("an answer")
            .lines
            .len()
    }

    /// The events of the audit. Checks the invariants on the way.
    async fn past(&self, task: TaskId) -> Vec<String> {
        let (record, history) = (
            self.record(task).await,
            self.direct.history(task).await.expect("an answer"),
        );
        let row = &record.task;
        assert_eq!((row.recovery_attempts, &row.lease_owner), (0, &None));
        let decl = self.engine.registry.of(&**row).expect("a known type").decl;
        let mut broken = invariants::broken(decl, &record, &history);
        broken.extend(invariants::found_by_fsck(&self.direct, &self.engine.registry, task).await);
        assert!(broken.is_empty(), "{}", broken.join("; "));
        history
            .audit
            .iter()
            .map(|row| format!("{} {:?}", row.entry.event, row.entry.step))
            .collect()
    }
}

/// The life of a parcel: every call on the way has the right answer.
async fn parcel(stage: &Stage, fate: &str) -> TaskId {
    let form = Form::new()
        .field("fate", fate)
        .file("files", "a.txt", "abc");
    let task = form::submit(&stage.engine, form).await;
    assert_eq!(stage.drive(task).await, TaskStatus::Waiting);
    if fate == "cancelled" {
        client::cancel(&stage.engine, task, "client")
            .await
            .expect("accepted");
        assert_eq!(stage.drive(task).await, TaskStatus::Cancelled);
        return task;
    }
    client::signal(&stage.engine, task, "approval", json!("anna"), "client")
        .await
        .expect("accepted");
    let status = stage.drive(task).await;
    match fate {
        "arrives" => assert_eq!(status, TaskStatus::Completed),
        "stuck" => {
            assert_eq!(status, TaskStatus::CompensationFailed);
            let (actor, note) = ("operator:kim".to_owned(), "cut open".to_owned());
            let step = Some("pack".to_owned());
            let resolution = Resolution {
                bulk: None,
                step,
                settled: SettledAs::Undone,
                output: None,
                task: None,
                actor,
                note,
            };
            operator::resolve(&stage.engine, task, resolution)
                .await
                .expect("accepted");
            assert_eq!(stage.drive(task).await, TaskStatus::Failed);
        }
        _ => assert_eq!(status, TaskStatus::Failed),
    }
    task
}

/// Loses the reply to each commit of a story in turn.
async fn every_commit_of(fate: &str) {
    let stage = Stage::of(Registry::new().with::<Parcel>()).await;
    let commits = stage.lose(u32::MAX);
    let undisturbed = parcel(&stage, fate).await;
    let expected = stage.past(undisturbed).await;
    let commits = commits.load(Ordering::SeqCst);
    assert!(
        commits > 5,
        "receive, submit, claim, and what follows: {commits}"
    );
    for nth in 1..=commits {
        let lost = stage.proxy.lost();
        stage.lose(nth);
        let task = parcel(&stage, fate).await;
        assert_eq!(
            stage.proxy.lost(),
            lost + 1,
            "the reply to commit {nth} was to be lost"
        );
        assert_eq!(stage.past(task).await, expected, "commit {nth}");
    }
    let entries = number(&raw(&stage.url).await, "SELECT count(*) FROM ledger").await;
    assert_eq!(
        entries,
        i64::from(commits) + 1,
        "statements of steps are written once for each task"
    );
    assert_eq!(
        stage.tasks().await,
        usize::try_from(commits).expect("few") + 1,
        "no submission made two tasks"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_completes_does_not_notice_a_lost_reply() {
    every_commit_of("arrives").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_undone_does_not_notice_a_lost_reply() {
    every_commit_of("returns").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_cancelled_does_not_notice_a_lost_reply() {
    every_commit_of("cancelled").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_an_operator_settles_does_not_notice_a_lost_reply() {
    every_commit_of("stuck").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_fires_over_a_lost_reply_makes_one_task() {
    let stage = Stage::of(Registry::new().with::<Tick>()).await;
    let tenant = Tenant::default();
    let spec = json!({"type": "Tick", "cron": "@yearly", "overlap": "allow"});
    let spec = serde_json::from_value(spec).expect("a schedule");
    schedule::set(&stage.engine, &tenant, "ticks", spec, "kim")
        .await
        .expect("it is made");
    let commits = stage.lose(u32::MAX);
    schedule::run_now(&stage.engine, &tenant, "ticks", "operator:kim")
        .await
        .expect("it fires");
    let commits = commits.load(Ordering::SeqCst);
    let mut made = 1;
    for nth in 1..=commits {
        stage.lose(nth);
        match schedule::run_now(&stage.engine, &tenant, "ticks", "operator:kim").await {
            Ok(fired) => {
                assert_eq!(stage.drive(fired.task_id).await, TaskStatus::Completed);
                made += 1;
            }
            // A statement of the transaction, and not its end: nothing was written, and the caller
            // is told so.
            Err(ScheduleError::Submit(SubmitError::Store(StoreError::Unavailable(_)))) => {}
            Err(error) => panic!("commit {nth}: {error}"),
        }
        assert_eq!(stage.proxy.lost(), u64::from(nth));
        assert_eq!(stage.tasks().await, made, "commit {nth}");
    }
    assert!(made > 1, "the end of the transaction was among them");
}

/// The change lands, its reply is lost, and before its author looks another change stands on top of
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_recognised_below_a_later_one() {
    let stage = Stage::of(Registry::new().with::<Parcel>()).await;
    let form = || {
        Form::new()
            .field("fate", "arrives")
            .file("files", "a.txt", "abc")
    };
    // The claim, and what a worker writes after it.
    for nth in 1..=3 {
        let task = form::submit(&stage.engine, form()).await;
        let row = stage.record(task).await.task;
        let (lost, api) = (
            stage.proxy.lost(),
            Engine::new(
                Ports {
                    store: open(&stage.url, options()).await,
                    ..stage.engine.ports.clone()
                },
                stage.engine.registry.clone(),
                EngineSettings::default(),
                "api",
            ),
        );
        stage.lose(nth);
        let token = CancelToken::new();
        let running = turn(&stage.engine, row.host, task, &token);
        let cancelling = async {
            eventually("a lost reply", || async {
                (stage.proxy.lost() > lost).then_some(())
            })
            .await;
            client::cancel(&api, task, "client")
                .await
                .expect("accepted");
        };
        let (end, ()) = tokio::time::timeout(LIMIT, futures::future::join(running, cancelling))
            .await
            .expect("an end");
        assert!(
            matches!(end, TurnEnd::Rests(_) | TurnEnd::GivenBack),
            "commit {nth}: {end:?}"
        );
        assert_eq!(stage.drive(task).await, TaskStatus::Cancelled);
        stage.past(task).await;
    }
}
