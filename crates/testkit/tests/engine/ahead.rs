//! Pure steps on the api host run before their task is accepted, and like any other where that does
//! not come out well.

use crate::errand::only;
use counterstep_contracts::{ChangeId, FileName, Labels, StepStatus, TaskStatus, Tenant};
use counterstep_kernel::client::{BatchItem, Submission, submit_all};
use counterstep_macros::distributed_task;
use counterstep_steps::{RetryPolicy, StepContext, StepResult};
use counterstep_testkit::clock::{until_works, work_for};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, TestTask};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What `quote` is told to do.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct QuoteRequest {
    /// Milliseconds.
    takes: u64,
    stores: bool,
    /// Names the counter of this test: tests run side by side.
    counter: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Quote(u32);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Booked(u32);

static RUNS: [AtomicU32; 5] = [const { AtomicU32::new(0) }; 5];
const ONCE_MORE: RetryPolicy = RetryPolicy::constant("10ms").max_retries(1);

struct Trip;

#[distributed_task(name = "Trip", queue = "trips")]
impl Trip {
    type Request = QuoteRequest;
    type Response = u32;

    #[step(1, host = "api", retry = ONCE_MORE, timeout = "60s")]
    #[pure]
    async fn quote(ctx: &StepContext, req: &QuoteRequest) -> StepResult<Quote> {
        RUNS[req.counter].fetch_add(1, Ordering::Relaxed);
        work_for(ctx.task_id(), Duration::from_millis(req.takes)).await;
        if req.stores && RUNS[req.counter].load(Ordering::Relaxed) == 1 {
            let body = futures::stream::once(async { Ok(b"3".to_vec().into()) }).boxed();
            ctx.objects()
                .put(
                    "quotes",
                    &FileName::parse("quote").expect("a name"),
                    "text/plain",
                    body,
                )
                .await?;
        }
        Ok(Quote(3))
    }

    #[step(2, host = "worker", no_undo = "test")]
    async fn book(quote: &Quote) -> StepResult<Booked> {
        Ok(Booked(quote.0))
    }

    #[step(3, host = "worker", no_undo = "test")]
    async fn tell(booked: &Booked) -> StepResult<u32> {
        Ok(booked.0)
    }

    fn respond(tell: &u32) -> u32 {
        *tell
    }
}

async fn submitted(form: Form) -> (TestTask, BTreeSet<ChangeId>) {
    let task = Harness::embedded(only::<Trip>()).submit(form).await;
    let changes = task
        .history()
        .await
        .audit
        .iter()
        .map(|row| row.change_id)
        .collect();
    (task, changes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pure_step_is_part_of_the_submission_and_a_task_of_three_steps_takes_four_commits() {
    let (task, changes) = submitted(Form::new()).await;
    assert_eq!(changes.len(), 1);
    assert_eq!(task.record().await.steps[0].status, StepStatus::Completed);
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("quote ok, book ok, tell ok, completed")
        .await;
    let history = task.history().await;
    let changes: BTreeSet<_> = history.audit.iter().map(|row| row.change_id).collect();
    // Submit with step 1; claim and start 2; complete 2 and start 3; complete 3 and the task.
    assert_eq!(changes.len(), 4);
    assert_eq!(RUNS[0].load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pure_step_that_takes_its_time_runs_under_its_lease_instead() {
    let (task, _) = submitted(Form::new().field("takes", 3_000).field("counter", 1)).await;
    assert_eq!(task.record().await.steps[0].status, StepStatus::Pending);
    let works = async {
        eventually("its second run", || async {
            (RUNS[1].load(Ordering::Relaxed) == 2).then_some(())
        })
        .await;
        until_works(task.id).await;
        task.clock.advance("3s");
    };
    let (status, ()) = futures::join!(task.run_to_rest(), works);
    assert_eq!(status, TaskStatus::Completed);
    task.assert_trail("quote ok, book ok, tell ok, completed")
        .await;
    assert_eq!(RUNS[1].load(Ordering::Relaxed), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn pure_steps_of_a_batch_share_a_second_and_those_behind_it_run_under_their_leases() {
    const ITEMS: usize = 20;
    let site = Harness::embedded(only::<Trip>()).start().await;
    let engine = &site.engine;
    let task_type = engine.registry.newest("Trip").expect("the type");
    let item = |_| BatchItem {
        key: None,
        labels: Labels::new(),
        webhook: None,
        body: json!({"takes": 60_000, "counter": 4}),
    };
    let items = (0..ITEMS).map(item).collect();
    let by = Submission {
        tenant: Tenant::default(),
        actor: "client".to_owned(),
        key: None,
        traceparent: None,
        webhook: None,
        labels: Labels::new(),
    };
    let submitted = submit_all(engine, task_type, by, items);
    let runs = || RUNS[4].load(Ordering::Relaxed);
    let over = async {
        // As many as are checked at a time.
        eventually("the first of them", || async {
            (runs() == 16).then_some(())
        })
        .await;
        site.clock.advance("2s");
    };
    let (submitted, ()) = futures::join!(submitted, over);
    let outcomes = submitted.expect("the store answers");
    assert_eq!(outcomes.len(), ITEMS);
    for outcome in outcomes {
        let task = outcome.expect("each is accepted").answer.task_id;
        assert_eq!(site.record(task).await.steps[0].status, StepStatus::Pending);
    }
    assert_eq!(runs(), 16, "none began behind the second");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_step_wants_to_store_has_no_intent_before_the_task() {
    let (task, _) = submitted(Form::new().field("stores", true).field("counter", 2)).await;
    task.assert_no_objects().await;
    assert_eq!(task.record().await.steps[0].status, StepStatus::Pending);
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(RUNS[2].load(Ordering::Relaxed), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_host_is_shown_by_a_pure_step_too() {
    let task = Harness::embedded(only::<Trip>())
        .crash_at("quote")
        .submit(Form::new().field("counter", 3))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_invariants().await;
    assert!(
        task.trail().await.starts_with("quote in doubt"),
        "{}",
        task.trail().await
    );
}
