//! Why a task stands where it does: what holds it, by name, and the move that ends it.

mod oracle;

use crate::errand::only;
use crate::lost::lost_in;
use async_trait::async_trait;
use counterstep_contracts::operator::{Why, WhyCode};
use counterstep_contracts::{Host, QueueName, Rate, TaskId, TaskStatus, WaitReason, WorkerMessage};
use counterstep_kernel::admission::limits::{NewLimit, set_limit};
use counterstep_kernel::admission::paused_queues::{pause_queue, resume_queue};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::operator::{BreakerFound, Surroundings, surroundings, why_among};
use counterstep_kernel::ports::{
    Activity, Delivery, DeliveryTag, DeniedConsumer, FetchError, KeptResults, PortsRuntime, Queue,
    QueueError, Settle, WorkerRow, WorkerSeen, Workers,
};
use counterstep_kernel::record::TaskRecord;
use counterstep_macros::distributed_task;
use counterstep_steps::breaker::{Breaker, BreakerState, Ticket, Verdict};
use counterstep_steps::times::DbTime;
use counterstep_steps::{BreakerPolicy, Limit, StepContext, StepResult, UndoResult};
use counterstep_testkit::many_tasks::{Site, eventually};
use counterstep_testkit::{Form, Harness};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// A permit for each payment that may end.
static GATE: Semaphore = Semaphore::const_new(0);

const BANK: Limit = Limit::named("bank").at_once(1);
const LINE: BreakerPolicy = BreakerPolicy::named("line")
    .after_failures(1)
    .within("1h")
    .open_for("30m");

struct Pay;

#[distributed_task(name = "Pay", queue = "pay", max_recoveries = 3)]
impl Pay {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", heavy, limit = BANK, breaker = LINE, no_undo = "does nothing")]
    async fn pay(_ctx: &StepContext) -> StepResult<u32> {
        GATE.acquire().await.expect("it stays open").forget();
        Ok(1)
    }

    fn respond() {}
}

struct Note;

#[distributed_task(name = "Note", queue = "notes")]
impl Note {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn note(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    fn respond() {}
}

async fn ask(site: &Site, task: TaskId) -> Why {
    let record = site.record(task).await;
    let around = surroundings(&site.engine, &record).await;
    why_among(&site.engine.registry, &record, &around)
}

/// Until it is the first reason.
async fn first(site: &Site, task: TaskId, code: WhyCode) -> Why {
    eventually("the reason", || async {
        let why = ask(site, task).await;
        (why.because[0].code == code).then_some(why)
    })
    .await
}

#[tokio::test]
async fn a_paused_queue_is_named_with_the_call_that_resumes_it() {
    let site = Harness::embedded(only::<Pay>()).start().await;
    let task = site.submit(Form::new()).await;
    let queue = QueueName("pay".to_owned());
    let (kim, note) = ("operator:kim", "the bank moves (by kim)");
    pause_queue(&site.engine, &queue, kim, note)
        .await
        .expect("paused");
    let why = ask(&site, task).await;
    assert_eq!(why.because[0].code, WhyCode::QueuePaused, "{why:?}");
    assert_eq!(why.because.len(), 1, "nothing else holds it: {why:?}");
    let detail = &why.because[0].detail;
    assert!(
        detail.contains("`pay`") && detail.contains("the bank moves"),
        "{detail}"
    );
    assert!(
        !detail.contains("kim"),
        "its tenant is not told who: {detail}"
    );
    assert_eq!(why.operator_can[0].path, "/api/queues/pay/resume");
    resume_queue(&site.engine, &queue, kim, note)
        .await
        .expect("resumed");
    let why = ask(&site, task).await;
    assert_eq!(why.because[0].code, WhyCode::Unclaimed, "{why:?}");
}

#[tokio::test]
async fn a_limit_is_named_before_the_first_claim() {
    let mut site = Harness::embedded(only::<Pay>())
        .settings(|settings| {
            (settings.heavy, settings.step_timeout) = (4, Duration::from_secs(600))
        })
        .start()
        .await;
    site.serve(4);
    let running = site.submit(Form::new()).await;
    site.all_are(TaskStatus::Running, &[running]).await;
    let held = site.submit(Form::new()).await;
    let why = first(&site, held, WhyCode::Limit).await;
    assert_eq!(why.status, TaskStatus::Dispatched, "it was never claimed");
    let reason = &why.because[0];
    assert!(
        reason
            .detail
            .contains("`bank`: 1 of 1 permits are held, by 1 processes"),
        "{reason:?}"
    );
    assert_eq!(reason.steps, ["pay"]);
    let can = &why.operator_can[0];
    assert_eq!((&*can.method, &*can.path), ("PUT", "/api/limits/bank"));
    GATE.add_permits(2);
    site.stop().await;
}

#[tokio::test]
async fn a_limit_that_an_operator_has_closed_is_told_apart() {
    let site = Harness::embedded(only::<Pay>()).start().await;
    let task = site.submit(Form::new()).await;
    let closed = NewLimit {
        at_once: None,
        rate: Some(Rate {
            starts: 1,
            per: Duration::from_secs(24 * 3600),
        }),
        actor: "operator:kim",
        note: "the bank is closed",
    };
    set_limit(&site.engine, "bank", closed).await.expect("set");
    // The day's only start was taken an hour ago.
    let record = site.record(task).await;
    let mut around = surroundings(&site.engine, &record).await;
    let (_, limit) = around.limit.as_mut().expect("a limit");
    limit.next_start = Some(record.now.later(Duration::from_secs(23 * 3600)));
    let why = why_among(&site.engine.registry, &record, &around);
    let reason = &why.because[0];
    assert_eq!(reason.code, WhyCode::LimitClosed, "{why:?}");
    assert!(reason.detail.contains("the bank is closed") && reason.until.is_some());
    assert_eq!(why.operator_can[0].path, "/api/limits/bank/reset");
}

#[tokio::test]
async fn an_open_breaker_is_named_with_the_time_at_which_it_is_asked_again() {
    let mut site = Harness::embedded(only::<Pay>()).start().await;
    let ports = &site.engine.ports;
    let runtime = Arc::new(PortsRuntime::from(ports));
    let breaker = Breaker::new("line", LINE, ports.hints.clone(), runtime);
    breaker.report(Ticket::default(), Verdict::Failed).await;
    site.serve(4);
    let task = site.submit(Form::new()).await;
    site.all_are(TaskStatus::Waiting, &[task]).await;
    let why = ask(&site, task).await;
    let reason = &why.because[0];
    assert_eq!(
        (reason.code, why.because.len()),
        (WhyCode::Breaker, 1),
        "{why:?}"
    );
    assert!(
        reason
            .detail
            .contains("`line` of its next step pay is open")
            && reason.until.is_some(),
        "{reason:?}"
    );
    site.stop().await;
}

/// A process that takes the task, with free slots.
fn process(site: &Site) -> WorkerRow {
    WorkerRow {
        id: "worker:1".to_owned(),
        machine: "rack-7".to_owned(),
        program: "1.0.0".to_owned(),
        queues: vec![QueueName("pay".to_owned())],
        types: site.engine.registry.known(),
        concurrency: 8,
        running: Vec::new(),
        running_count: 0,
        heavy: 2,
        heavy_count: 0,
        permits: BTreeMap::new(),
        abandoned_count: 0,
        lost_after: Duration::from_secs(45),
        passed: None,
        kept: None,
        fetch_errors: Vec::new(),
        breakers: BTreeMap::new(),
        activity: Activity::default(),
        started_at: None,
        is_stopped: false,
    }
}

fn denied(lane: &str) -> FetchError {
    FetchError {
        queue: QueueName(lane.to_owned()),
        message: "not allowed".to_owned(),
        consumer: Some(DeniedConsumer {
            name: lane.replace('.', "~"),
            subject: format!("$JS.API.CONSUMER.CREATE.{lane}"),
        }),
    }
}

fn failed() -> FetchError {
    FetchError {
        queue: QueueName("pay".to_owned()),
        message: "not connected".to_owned(),
        consumer: None,
    }
}

/// What a case changes.
type Change = fn(&mut WorkerRow, &mut Surroundings);

#[tokio::test]
async fn what_processes_have_reported_names_what_keeps_a_task_from_being_claimed() {
    let site = Harness::embedded(only::<Pay>()).start().await;
    let task = site.submit(Form::new()).await;
    // Seconds since its last refresh, losses of the task, and what else is so.
    let cases: [(WhyCode, u64, u32, Change); 15] = [
        (WhyCode::Unclaimed, 1, 0, |_, _| {}),
        (WhyCode::Jammed, 1, 0, |row, _| row.abandoned_count = 8),
        (WhyCode::NoSlot, 1, 0, |row, _| row.running_count = 8),
        (WhyCode::Heavy, 1, 0, |row, _| row.heavy_count = 2),
        // After the second loss it runs among four.
        (WhyCode::Beside, 1, 2, |row, _| row.running_count = 4),
        (WhyCode::Unclaimed, 1, 2, |row, _| row.running_count = 3),
        (WhyCode::NoHost, 1, 0, |row, _| {
            row.queues[0].0 = "other".to_owned()
        }),
        (WhyCode::NoHost, 1, 0, |row, _| row.types[0].version = 2),
        (WhyCode::Consumer, 1, 0, |row, _| {
            row.fetch_errors = vec![denied("pay"), failed()];
        }),
        // The task stands in another lane.
        (WhyCode::Unclaimed, 1, 0, |row, _| {
            row.fetch_errors = vec![denied("pay.backlog")];
        }),
        (WhyCode::Broker, 1, 0, |row, _| {
            row.fetch_errors = vec![denied("pay.backlog"), failed()];
        }),
        // Polling would find it, and there is no slot.
        (WhyCode::NoSlot, 1, 0, |row, _| {
            (row.running_count, row.fetch_errors) = (8, vec![failed()]);
        }),
        (WhyCode::HostsSilent, 20, 0, |_, _| {}),
        (WhyCode::DatabaseWasAway, 200, 0, |_, around| {
            around.back_for = Some(Duration::from_secs(3));
        }),
        // Long enough for each process to have refreshed its row.
        (WhyCode::HostsSilent, 200, 0, |_, around| {
            around.back_for = Some(Duration::from_secs(18));
        }),
    ];
    for (code, ago, losses, change) in cases {
        let mut record = site.record(task).await;
        record.task.recovery_attempts = losses;
        let mut around = surroundings(&site.engine, &record).await;
        let mut row = process(&site);
        change(&mut row, &mut around);
        let seen_at = record.now;
        let rows = vec![WorkerSeen { row, seen_at }];
        let now = seen_at.later(Duration::from_secs(ago));
        around.workers = Some(Workers { now, rows });
        let why = why_among(&site.engine.registry, &record, &around);
        assert_eq!(why.because[0].code, code, "{why:?}");
        let silent = ["has missed a refresh and may be gone", "is lost"];
        let gone = silent.iter().any(|it| why.because[0].detail.contains(it));
        assert_eq!(gone, code == WhyCode::HostsSilent, "{why:?}");
    }
}

#[tokio::test]
async fn a_task_whose_next_loss_ends_its_recovery_says_so_behind_what_holds_it() {
    let site = Harness::embedded(only::<Pay>()).start().await;
    let task = site.submit(Form::new()).await;
    let mut record = site.record(task).await;
    for (losses, codes) in [
        (2, &[WhyCode::Unclaimed][..]),
        (3, &[WhyCode::Unclaimed, WhyCode::LostCounts][..]),
    ] {
        record.task.recovery_attempts = losses;
        let around = surroundings(&site.engine, &record).await;
        let why = why_among(&site.engine.registry, &record, &around);
        let found: Vec<_> = why.because.iter().map(|reason| reason.code).collect();
        assert_eq!(found, codes, "{why:?}");
    }
}

#[tokio::test]
async fn beside_one_that_has_reported_since_an_outage_none_counts_as_gone() {
    let site = Harness::embedded(only::<Pay>()).start().await;
    let task = site.submit(Form::new()).await;
    let record = site.record(task).await;
    let mut around = surroundings(&site.engine, &record).await;
    let now = record.now.later(Duration::from_secs(60));
    let seen = |id: &str, seen_at| WorkerSeen {
        row: WorkerRow {
            id: id.to_owned(),
            ..process(&site)
        },
        seen_at,
    };
    let rows = vec![seen("worker:1", now), seen("worker:2", record.now)];
    around.workers = Some(Workers { now, rows });
    for (back_for, is_gone) in [(Some(3), false), (Some(18), true), (None, true)] {
        around.back_for = back_for.map(Duration::from_secs);
        let why = why_among(&site.engine.registry, &record, &around);
        assert_eq!(why.because[0].code, WhyCode::Unclaimed, "{why:?}");
        let detail = &why.because[0].detail;
        assert_eq!(
            detail.contains("1 that takes it is lost"),
            is_gone,
            "{detail}"
        );
    }
}

#[tokio::test]
async fn a_broker_is_named_with_its_words_where_no_process_gets_the_message() {
    let site = Harness::embedded(only::<Pay>()).start().await;
    let task = site.submit(Form::new()).await;
    let record = site.record(task).await;
    let mut around = surroundings(&site.engine, &record).await;
    let seen = |id: &str, fetch_errors| WorkerSeen {
        row: WorkerRow {
            id: id.to_owned(),
            fetch_errors,
            ..process(&site)
        },
        seen_at: record.now,
    };
    let mut among = |rows| {
        around.workers = Some(Workers {
            now: record.now,
            rows,
        });
        why_among(&site.engine.registry, &record, &around)
    };
    let why = among(vec![
        seen("worker:1", vec![failed()]),
        seen("worker:2", vec![]),
    ]);
    assert_eq!(
        why.because[0].code,
        WhyCode::Unclaimed,
        "the other one gets it: {why:?}"
    );
    let why = among(vec![
        seen("worker:1", vec![failed()]),
        seen("worker:2", vec![denied("pay")]),
    ]);
    let codes: Vec<_> = why.because.iter().map(|reason| reason.code).collect();
    assert_eq!(codes, [WhyCode::Consumer, WhyCode::Broker], "{why:?}");
    let [consumer, broker] = &why.because[..] else {
        panic!("{why:?}")
    };
    for part in ["worker:2", "`pay`", "$JS.API.CONSUMER.CREATE.pay"] {
        assert!(consumer.detail.contains(part), "{part}: {consumer:?}");
    }
    for part in ["worker:1: not connected", "queue `pay`", "polling"] {
        assert!(broker.detail.contains(part), "{part}: {broker:?}");
    }
    let commands: Vec<_> = why
        .operator_can
        .iter()
        .filter_map(|can| can.command.as_deref())
        .collect();
    assert_eq!(commands, ["doctor --role worker", "doctor"]);
}

/// A broker that is away until it is back, and brings nothing.
#[derive(Debug, Clone, Default)]
struct Broker(Arc<AtomicBool>);

#[async_trait]
impl Queue for Broker {
    async fn publish(&self, _: &QueueName, _: &WorkerMessage) -> Result<(), QueueError> {
        Ok(())
    }

    async fn fetch(
        &self,
        _: &[QueueName],
        _: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>, QueueError> {
        if !self.0.load(Ordering::Relaxed) {
            return Err(QueueError(
                "cannot reach nats://kim:secret@n1:4222".to_owned(),
            ));
        }
        // Nothing ever comes, and the wait has an end.
        let _ = tokio::time::timeout(wait, std::future::pending::<()>()).await;
        Ok(Vec::new())
    }

    async fn settle(&self, _: &DeliveryTag, _: Settle) -> Result<(), QueueError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_process_reports_that_its_fetches_fail_until_they_work_again() {
    let mut site = Harness::embedded(only::<Note>())
        .settings(|settings| settings.lost_after = Duration::from_millis(150))
        .start()
        .await;
    let broker = Broker::default();
    site.engine.ports.queue = Arc::new(broker.clone());
    let task = site.submit(Form::new()).await;
    // As it is before polling finds it.
    let record = site.record(task).await;
    site.serve(4);
    let reported = |what: &'static str, so: fn(&WorkerRow) -> bool| {
        let (store, id) = (site.engine.ports.store.clone(), site.engine.id.clone());
        eventually(what, move || {
            let (store, id) = (store.clone(), id.clone());
            async move {
                let found = store.workers().await.expect("an answer").rows;
                let row = found.into_iter().find(|seen| *seen.row.id == *id)?.row;
                so(&row).then_some(row)
            }
        })
    };
    // One for the worker host, and one for the API host of this process.
    let row = reported("failed fetches", |row| row.fetch_errors.len() == 2).await;
    let expected = FetchError {
        queue: QueueName("notes".to_owned()),
        message: "cannot reach nats://n1:4222".to_owned(),
        consumer: None,
    };
    assert_eq!(row.fetch_errors[0], expected);
    let around = surroundings(&site.engine, &record).await;
    let why = why_among(&site.engine.registry, &record, &around);
    assert_eq!(why.because[0].code, WhyCode::Broker, "{why:?}");
    assert!(why.because[0].detail.contains("nats://n1:4222"), "{why:?}");

    broker.0.store(true, Ordering::Relaxed);
    reported("a fetch that works", |row| row.fetch_errors.is_empty()).await;
    let around = surroundings(&site.engine, &record).await;
    let why = why_among(&site.engine.registry, &record, &around);
    assert_eq!(why.because[0].code, WhyCode::Unclaimed, "{why:?}");
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_task_that_a_reconciler_has_reserved_is_told_apart_and_names_the_time() {
    let fault = Fault::at("note", FaultKind::HangBefore);
    let site = Harness::embedded(only::<Note>())
        .fault(fault.clone())
        .settings(|settings| settings.lease = Duration::from_millis(200))
        .start()
        .await;
    let task = site.submit(Form::new()).await;
    lost_in(&site.engine, task, &fault).await;
    let lost = first(&site, task, WhyCode::HostLost).await;
    assert_eq!(lost.because[0].steps, ["note"]);
    let store = &site.engine.ports.store;
    let reconciler = WorkerRow {
        id: "reconciler:1".to_owned(),
        ..process(&site)
    };
    store.refresh_worker(&reconciler).await.expect("written");
    let reserved = store.reserve(&[task], Duration::from_secs(600)).await;
    assert_eq!(reserved.expect("an answer"), [task]);
    let why = ask(&site, task).await;
    let reason = &why.because[0];
    assert_eq!(reason.code, WhyCode::ReservedForRecovery, "{why:?}");
    assert!(
        reason.detail.contains("reconciler:1 is alive"),
        "{reason:?}"
    );
    assert!(reason.until > lost.because[0].until, "{reason:?}");
    assert_eq!(reason.owner, lost.because[0].owner);
}

/// What a case changes of the task, and of what is known beside it.
type Turn = fn(&mut TaskRecord, &mut WorkerRow, &mut Surroundings);

fn breaker(state: Option<BreakerState>) -> Option<BreakerFound> {
    Some(BreakerFound {
        name: "line".to_owned(),
        step: "pay".to_owned(),
        state,
        probing: None,
    })
}

fn sleeps_for_a_breaker(record: &mut TaskRecord) {
    record.task.status = TaskStatus::Waiting;
    record.task.waiting = Some(WaitReason::Breaker);
    record.task.due_at = Some(record.now.later(Duration::from_secs(60)));
}

fn lost(record: &mut TaskRecord) {
    record.task.status = TaskStatus::Running;
    record.task.lease_owner = Some("worker:1".to_owned());
    record.task.lease_expires_at = Some(DbTime(record.now.0 - 1_000_000));
}

#[tokio::test]
async fn each_reason_has_its_code_and_what_ends_it() {
    let site = Harness::embedded(only::<Pay>()).start().await;
    let task = site.submit(Form::new()).await;
    let worker = Some("worker --queues pay --task-types Pay@1");
    let cases: [(WhyCode, Option<&str>, Turn); 10] = [
        (WhyCode::Stopping, worker, |_, row, _| row.is_stopped = true),
        (WhyCode::OtherHostKind, Some("api"), |record, row, _| {
            record.task.host = Host::Api;
            row.queues.clear();
        }),
        (WhyCode::Backlog, None, |record, _, _| {
            record.task.queue = "pay.backlog".to_owned();
        }),
        (WhyCode::Unannounced, None, |record, _, _| {
            record.task.status = TaskStatus::Submitted;
        }),
        (
            WhyCode::HostLost,
            Some("reconciler --once"),
            |record, _, _| {
                lost(record);
            },
        ),
        (WhyCode::CutOff, None, |record, row, _| {
            lost(record);
            row.kept = Some(KeptResults {
                results: 2,
                bytes: 10,
                oldest: None,
            });
        }),
        (WhyCode::BreakerUnknown, None, |record, _, around| {
            sleeps_for_a_breaker(record);
            around.breaker = breaker(None);
        }),
        (WhyCode::Due, None, |record, _, around| {
            sleeps_for_a_breaker(record);
            around.breaker = breaker(Some(BreakerState::Closed));
        }),
        (WhyCode::Breaker, None, |record, _, around| {
            sleeps_for_a_breaker(record);
            let left = Duration::from_secs(60);
            around.breaker = breaker(Some(BreakerState::Open(left)));
        }),
        // Its time has come: what held it then holds it no more.
        (WhyCode::Unclaimed, None, |record, _, around| {
            sleeps_for_a_breaker(record);
            record.task.due_at = Some(record.now);
            around.breaker = breaker(Some(BreakerState::HalfOpen));
        }),
    ];
    for (code, command, change) in cases {
        let mut record = site.record(task).await;
        let mut around = surroundings(&site.engine, &record).await;
        let mut row = process(&site);
        change(&mut record, &mut row, &mut around);
        around.workers = Some(Workers {
            now: record.now,
            rows: vec![WorkerSeen {
                row,
                seen_at: record.now,
            }],
        });
        let why = why_among(&site.engine.registry, &record, &around);
        let first = &why.because[0];
        assert_eq!(first.code, code, "{why:?}");
        let ends = why.operator_can.iter().find(|can| can.ends == Some(code));
        let said = ends.and_then(|can| can.command.as_deref());
        assert_eq!(said, command, "{why:?}");
        assert!(ends.is_some() || first.until.is_some(), "{why:?}");
    }
}

#[tokio::test]
async fn a_deadline_that_comes_first_is_named_behind_what_holds_the_task() {
    let site = Harness::embedded(only::<Pay>()).start().await;
    let task = site.submit(Form::new()).await;
    let mut record = site.record(task).await;
    let around = surroundings(&site.engine, &record).await;
    for (left, codes) in [
        (10, &[WhyCode::Unclaimed, WhyCode::Deadline][..]),
        (100, &[WhyCode::Unclaimed][..]),
    ] {
        record.task.deadline_at = Some(record.now.later(Duration::from_secs(left)));
        let why = why_among(&site.engine.registry, &record, &around);
        let found: Vec<_> = why.because.iter().map(|reason| reason.code).collect();
        assert_eq!(found, codes, "{why:?}");
    }
}

/// A permit for each undo that may end.
static UNDO_GATE: Semaphore = Semaphore::const_new(0);

struct Newest;

#[distributed_task(
    name = "Newest",
    queue = "newest",
    key = "req.to_string()",
    at_once = 1,
    beyond = "replace",
    cancellable
)]
impl Newest {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", undo = take_back)]
    async fn note(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    async fn take_back(_out: Option<u32>) -> UndoResult {
        UNDO_GATE.acquire().await.expect("it stays open").forget();
        Ok(())
    }

    #[step(2, host = "worker", no_undo = "does nothing")]
    async fn wait(ctx: &StepContext, _note: &u32) -> StepResult<bool> {
        ctx.cancel().cancelled().await;
        Ok(true)
    }

    fn respond() {}
}

#[tokio::test]
async fn a_task_for_which_another_one_makes_room_names_that_one_and_what_it_does() {
    let mut site = Harness::embedded(only::<Newest>())
        .settings(|settings| settings.step_timeout = Duration::from_secs(600))
        .start()
        .await;
    site.serve(4);
    let first = site.submit(Form::new()).await;
    site.all("in its second step", &[first], |record| {
        record.steps[1].attempt_open
    })
    .await;
    let second = site.submit(Form::new()).await;
    site.all_are(TaskStatus::Compensating, &[first]).await;
    let why = self::first(&site, second, WhyCode::Replacing).await;
    let reason = &why.because[0];
    assert_eq!(reason.tasks, [first]);
    assert!(reason.detail.contains("compensating"), "{reason:?}");
    assert!(reason.until.is_some(), "{reason:?}");
    UNDO_GATE.add_permits(2);
    site.all_are(TaskStatus::Cancelled, &[first]).await;
    kernel_cancel(&site, second).await;
    site.stop().await;
}

async fn kernel_cancel(site: &Site, task: TaskId) {
    counterstep_kernel::client::cancel(&site.engine, task, "client")
        .await
        .expect("it is accepted");
    site.all_are(TaskStatus::Cancelled, &[task]).await;
}

#[tokio::test]
async fn a_task_behind_an_older_one_of_its_key_that_has_not_started_names_it() {
    let site = Harness::embedded(only::<InLine>()).start().await;
    let first = site.submit(Form::new()).await;
    let second = site.submit(Form::new()).await;
    let why = ask(&site, first).await;
    assert_eq!(why.because[0].code, WhyCode::Unclaimed, "{why:?}");
    let why = ask(&site, second).await;
    let reason = &why.because[0];
    assert_eq!(reason.code, WhyCode::PlaceBlocked, "{why:?}");
    assert_eq!(reason.tasks, [first]);
    assert!(reason.detail.contains("was offered"), "{reason:?}");
    let can = &why.operator_can[0];
    let path = format!("/api/tasks/{first}");
    assert_eq!((&*can.method, &can.path), ("DELETE", &path), "{why:?}");
}

struct InLine;

#[distributed_task(
    name = "InLine",
    queue = "in-line",
    key = "req.to_string()",
    at_once = 1,
    cancellable
)]
impl InLine {
    type Request = serde_json::Value;
    type Response = ();

    #[step(1, host = "worker", no_undo = "does nothing")]
    async fn note(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    fn respond() {}
}
