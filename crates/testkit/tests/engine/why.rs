//! Why a task stands where it does: what holds it, by name, and the move that ends it.

use crate::errand::only;
use counterstep_contracts::operator::{Why, WhyCode};
use counterstep_contracts::{QueueName, Rate, TaskId, TaskStatus};
use counterstep_kernel::limits::{NewLimit, set_limit};
use counterstep_kernel::operator::{Surroundings, surroundings, why_among};
use counterstep_kernel::paused_queues::{pause_queue, resume_queue};
use counterstep_kernel::ports::{PortsRuntime, WorkerRow, WorkerSeen, Workers};
use counterstep_macros::distributed_task;
use counterstep_steps::breaker::{Breaker, Ticket, Verdict};
use counterstep_steps::{BreakerPolicy, Limit, StepContext, StepResult};
use counterstep_testkit::site::{Site, eventually};
use counterstep_testkit::{Form, Harness};
use std::collections::BTreeMap;
use std::sync::Arc;
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
    let by = ("operator:kim", "the bank moves");
    pause_queue(&site.engine, &queue, by).await.expect("paused");
    let why = ask(&site, task).await;
    assert_eq!(why.because[0].code, WhyCode::QueuePaused, "{why:?}");
    assert_eq!(why.because.len(), 1, "nothing else holds it: {why:?}");
    let detail = &why.because[0].detail;
    assert!(
        detail.contains("`pay`") && detail.contains(by.1),
        "{detail}"
    );
    assert!(
        !detail.contains("kim"),
        "its tenant is not told who: {detail}"
    );
    assert_eq!(why.operator_can[0].path, "/api/queues/pay/resume");
    resume_queue(&site.engine, &queue, by)
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
        started_at: None,
        is_stopped: false,
    }
}

/// What a case changes.
type Change = fn(&mut WorkerRow, &mut Surroundings);

#[tokio::test]
async fn what_processes_have_reported_names_what_keeps_a_task_from_being_claimed() {
    let site = Harness::embedded(only::<Pay>()).start().await;
    let task = site.submit(Form::new()).await;
    // Seconds since its last refresh, losses of the task, and what else is so.
    let cases: [(WhyCode, u64, u32, Change); 11] = [
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
        let gone = why.because[0].detail.contains("may be gone");
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
