//! Breakers: what opens one, and who waits for it.

mod given_back;
mod limits;
mod of_each_process;

use crate::errand::only;
use crate::manual::{Mute, TestHints};
use counterstep_contracts::{TaskId, TaskStatus, WaitReason};
use counterstep_kernel::ports::Hints;
use counterstep_kernel::ports::PortsRuntime;
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::status;
use counterstep_macros::distributed_task;
use counterstep_steps::breaker::{Breaker, BreakerState, Ticket, Verdict};
use counterstep_steps::{
    BreakerPolicy, RetryPolicy, StepContext, StepError, StepResult, UndoResult,
};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, Site};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

/// The outside: banks by name, one for each test.
static BANKS: LazyLock<Mutex<HashMap<String, Bank>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Clone, Default)]
struct Bank {
    answer: Answer,
    calls: usize,
    failed: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Answer {
    #[default]
    Yes,
    Down,
    Never,
    Later,
}

fn bank<T>(name: &str, with: impl FnOnce(&mut Bank) -> T) -> T {
    with(BANKS.lock().unwrap().entry(name.to_owned()).or_default())
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Order {
    bank: String,
    /// `pack` fails permanently once the bank's breaker is to be seen open.
    spoiled: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Reserved(String);

#[derive(Debug, Serialize, Deserialize)]
struct Charged(u32);

const EAGER: RetryPolicy = RetryPolicy::constant("1ms").max_retries(50);
const PAYMENTS: BreakerPolicy = BreakerPolicy::named("payments")
    .after_failures(3)
    .within("1h")
    .open_for("2s");

struct Sale;

#[distributed_task(name = "Sale", queue = "sales", timeout = "50s", cancellable)]
impl Sale {
    type Request = Order;
    type Response = u32;

    #[step(1, host = "worker", undo = release)]
    async fn reserve(order: &Order) -> StepResult<Reserved> {
        Ok(Reserved(order.bank.clone()))
    }

    async fn release(_out: Option<Reserved>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", retry = EAGER, breaker = PAYMENTS, undo = refund)]
    async fn charge(order: &Order) -> StepResult<Charged> {
        let (answer, calls) = bank(&order.bank, |bank| {
            bank.calls += 1;
            bank.failed += usize::from(bank.answer != Answer::Yes);
            (bank.answer, bank.calls)
        });
        match answer {
            Answer::Yes => Ok(Charged(u32::try_from(calls).unwrap_or(u32::MAX))),
            Answer::Down => Err(StepError::transient("the bank does not answer")),
            Answer::Never => Err(StepError::permanent("the card was declined")),
            Answer::Later => Err(StepError::rate_limited(
                Duration::from_millis(1),
                "not so fast",
            )),
        }
    }

    async fn refund(ctx: &StepContext, _out: Option<Charged>) -> UndoResult {
        let _ = ctx;
        Ok(())
    }

    #[step(3, host = "worker", undo = unpack)]
    async fn pack(_ctx: &StepContext, order: &Order) -> StepResult<bool> {
        if !order.spoiled {
            return Ok(true);
        }
        eventually("a bank that is down", || async {
            bank(&order.bank, |bank| bank.answer != Answer::Yes).then_some(())
        })
        .await;
        Err(StepError::permanent("spoiled"))
    }

    async fn unpack(_out: Option<bool>) -> UndoResult {
        Ok(())
    }

    fn respond(charged: &Charged) -> u32 {
        charged.0
    }
}

fn order(bank: &str) -> Form {
    Form::new().field("bank", bank)
}

fn breaker(site: &Site) -> Breaker {
    let ports = &site.engine.ports;
    Breaker::new(
        "payments",
        PAYMENTS,
        ports.hints.clone(),
        Arc::new(PortsRuntime::from(ports)),
    )
}

async fn open(site: &Site) {
    for _ in 0..3 {
        breaker(site)
            .report(Ticket::default(), Verdict::Failed)
            .await;
    }
    assert!(matches!(
        breaker(site).standing().await,
        BreakerState::Open(_)
    ));
    // As metrics show it.
    let states = status::breakers(&site.engine).await;
    let [(key, BreakerState::Open(_))] = &states[..] else {
        panic!("one breaker, which is open: {states:?}")
    };
    assert_eq!(key, breaker(site).key());
}

/// Passes the time that the breaker is open for, and the due times of those that wait for it: a
/// quarter more spreads them.
fn pass(site: &Site, hints: &TestHints) {
    hints.advance(PAYMENTS.open_for);
    site.clock.advance_by(PAYMENTS.open_for * 5 / 4);
}

/// A site whose hints have a time that only the test moves.
async fn site(harness: Harness) -> (Site, Arc<TestHints>) {
    let mut site = harness.start().await;
    let hints = Arc::new(TestHints::default());
    site.engine.ports.hints = hints.clone();
    (site, hints)
}

fn waits_for_a_breaker(record: &TaskRecord) -> bool {
    record.task.waiting == Some(WaitReason::Breaker)
}

fn attempts(record: &TaskRecord) -> (i32, u32) {
    (record.steps[1].attempts.0, record.steps[1].retries_used)
}

async fn submit(site: &Site, form: Form, count: usize) -> Vec<TaskId> {
    join_all((0..count).map(|_| site.submit(form.clone()))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_tasks_wait_for_an_open_breaker_and_complete_with_the_attempts_they_had() {
    const BANK: &str = "hundred";
    let (mut site, hints) = site(Harness::embedded(only::<Sale>())).await;
    bank(BANK, |bank| bank.answer = Answer::Down);
    site.serve(4);

    let first = submit(&site, order(BANK), 1).await;
    let waiting = site
        .all("waiting for the breaker", &first, waits_for_a_breaker)
        .await;
    assert_eq!(
        attempts(&waiting[0]),
        (3, 3),
        "it opens at the third failure"
    );

    let tasks = submit(&site, order(BANK), 100).await;
    for record in site
        .all("waiting for the breaker", &tasks, waits_for_a_breaker)
        .await
    {
        assert_eq!(
            attempts(&record),
            (0, 0),
            "an open breaker lets no attempt start"
        );
        assert_eq!(record.task.status, TaskStatus::Waiting);
        assert!(record.task.lease_owner.is_none() && record.task.due_at.is_some());
    }
    assert_eq!(bank(BANK, |bank| bank.calls), 3);

    bank(BANK, |bank| bank.answer = Answer::Yes);
    pass(&site, &hints);
    for record in site.all_are(TaskStatus::Completed, &tasks).await {
        assert_eq!(attempts(&record), (1, 0));
    }
    let record = &site.all_are(TaskStatus::Completed, &first).await[0];
    assert_eq!(attempts(record), (4, 3));
    assert_eq!(bank(BANK, |bank| (bank.calls, bank.failed)), (104, 3));
    let waits = site
        .history(first[0])
        .await
        .audit
        .into_iter()
        .find(|row| row.entry.event == "waits")
        .unwrap();
    assert_eq!(waits.entry.details["for"], "breaker");
    assert_eq!(
        (
            &waits.entry.details["breaker"],
            &waits.entry.details["step"]
        ),
        (&"payments".into(), &"charge".into())
    );
    site.assert_invariants(&tasks).await;
    site.assert_invariants(&first).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_one_task_probes_and_when_it_fails_the_others_go_on_waiting() {
    const BANK: &str = "probe";
    let (mut site, hints) = site(Harness::embedded(only::<Sale>())).await;
    bank(BANK, |bank| bank.answer = Answer::Down);
    open(&site).await;
    site.serve(4);
    let tasks = submit(&site, order(BANK), 10).await;
    site.all("waiting for the breaker", &tasks, waits_for_a_breaker)
        .await;
    assert_eq!(bank(BANK, |bank| bank.calls), 0);
    for probes in 1..=2 {
        pass(&site, &hints);
        eventually("a probe", || async {
            (bank(BANK, |bank| bank.calls) == probes).then_some(())
        })
        .await;
        eventually("an open breaker", || async {
            matches!(breaker(&site).standing().await, BreakerState::Open(_)).then_some(())
        })
        .await;
    }
    assert_eq!(
        bank(BANK, |bank| bank.calls),
        2,
        "one call each time, from ten tasks"
    );
    bank(BANK, |bank| bank.answer = Answer::Yes);
    pass(&site, &hints);
    let records = site.all_are(TaskStatus::Completed, &tasks).await;
    assert_eq!(
        records.iter().map(|record| attempts(record).0).sum::<i32>(),
        12,
        "ten that succeeded, two probes"
    );
    site.assert_invariants(&tasks).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_of_ten_years_delays_a_task_no_longer_than_the_policy() {
    const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    let (mut site, hints) = site(Harness::embedded(only::<Sale>())).await;
    hints
        .set("breaker:payments", "open planted", TEN_YEARS)
        .await
        .unwrap();
    hints
        .set("breaker:payments:planted:cooling", "", TEN_YEARS)
        .await
        .unwrap();
    site.serve(1);
    let tasks = submit(&site, order("ten years"), 1).await;
    let record = &site
        .all("waiting for the breaker", &tasks, waits_for_a_breaker)
        .await[0];
    let waits = record
        .task
        .due_at
        .expect("it is due")
        .after(record.task.updated_at);
    // A quarter more spreads those that wait together.
    assert!(waits <= PAYMENTS.open_for * 5 / 4, "{waits:?}");
    pass(&site, &hints);
    site.all_are(TaskStatus::Completed, &tasks).await;
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_that_say_that_the_bank_is_there_do_not_open_it() {
    let (mut site, _) = site(Harness::embedded(only::<Sale>())).await;
    bank("never", |bank| bank.answer = Answer::Never);
    bank("later", |bank| bank.answer = Answer::Later);
    site.serve(4);
    let refused = submit(&site, order("never"), 5).await;
    for record in site.all_are(TaskStatus::Failed, &refused).await {
        assert_eq!(
            attempts(&record),
            (1, 0),
            "a permanent error is never retried"
        );
    }
    let later = submit(&site, order("later"), 1).await;
    let record = &site.all_are(TaskStatus::Failed, &later).await[0];
    assert_eq!(attempts(record), (51, 50));
    assert_eq!(breaker(&site).standing().await, BreakerState::Closed);
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_hints_there_is_no_breaker() {
    for hints in [Mute::Errs, Mute::NeverAnswers] {
        let name = format!("{hints:?}");
        let mut site = Harness::embedded(only::<Sale>()).start().await;
        site.engine.ports.hints = Arc::new(hints);
        bank(&name, |bank| bank.answer = Answer::Down);
        site.serve(2);
        let tasks = submit(&site, order(&name), 2).await;
        eventually("more failures than would open it", || async {
            (bank(&name, |bank| bank.failed) > 6).then_some(())
        })
        .await;
        bank(&name, |bank| bank.answer = Answer::Yes);
        site.all_are(TaskStatus::Completed, &tasks).await;
        for task in &tasks {
            assert!(
                !site
                    .history(*task)
                    .await
                    .audit
                    .iter()
                    .any(|row| row.entry.event == "waits")
            );
        }
        site.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_the_hints_of_one_process_it_opens_and_closes_by_the_clock() {
    const BANK: &str = "local";
    let mut site = Harness::embedded(only::<Sale>()).start().await;
    bank(BANK, |bank| bank.answer = Answer::Down);
    site.serve(2);
    let tasks = submit(&site, order(BANK), 10).await;
    site.all("waiting for the breaker", &tasks, waits_for_a_breaker)
        .await;
    bank(BANK, |bank| bank.answer = Answer::Yes);
    site.clock.advance_by(PAYMENTS.open_for * 5 / 4);
    let records = site.all_are(TaskStatus::Completed, &tasks).await;
    let failed = bank(BANK, |bank| bank.failed);
    assert_eq!(
        records
            .iter()
            .map(|record| record.steps[1].retries_used as usize)
            .sum::<usize>(),
        failed
    );
    assert_eq!(
        records
            .iter()
            .map(|record| attempts(record).0 as usize)
            .sum::<usize>(),
        failed + 10
    );
    site.assert_invariants(&tasks).await;
    site.stop().await;
}
