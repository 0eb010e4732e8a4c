//! Operations at a pace: a sample and a person's word, a rate, a pause at failures, a wait for a breaker; wherever a process dies, each
//! task is decided on once, and none before its turn.

use super::{Bench, Charge, execute, only, redrive, serve_until, serve_until_it, show, spec};
use async_trait::async_trait;
use counterstep_contracts::bulk::{BulkAction, BulkStatus, BulkView};
use counterstep_contracts::pace::{BulkOutcome, BulkTask, Pace, PausedFor};
use counterstep_contracts::{BreakerPolicy, RetryPolicy, SettledAs, TaskId, TaskStatus, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::bulk::{self, BulkSpec};
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::ports::{
    CommitError, Committed, DocumentKind, DocumentQuery, DocumentWrite, DocumentsPut, Storage,
    StoreError,
};
use counterstep_macros::distributed_task;
use counterstep_steps::{State, StepError, StepResult};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::through::{Around, Through};
use counterstep_testkit::{Form, Harness};
use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use tokio::sync::Notify;

fn at(pace: Pace) -> BulkSpec {
    BulkSpec {
        pace: Some(pace),
        ..redrive(None)
    }
}

const SAMPLE_OF_5: Pace = Pace {
    sample: Some(5),
    per_minute: None,
    max_failures: None,
};

async fn paused(engine: &Engine, id: &str) -> BulkView {
    serve_until_it(engine, id, "its pause", |it| {
        it.status == BulkStatus::Paused
    })
    .await
}

async fn resume(engine: &Engine, id: &str) -> BulkView {
    let store = &engine.ports.store;
    let resumed = bulk::resume(store, &Tenant::default(), id, "operator:kim").await;
    resumed.expect("it is there")
}

async fn tasks(engine: &Engine, id: &str, from: usize, most: usize) -> (Vec<BulkTask>, bool) {
    let store = &engine.ports.store;
    let found = bulk::tasks(store, &Tenant::default(), id, from, most).await;
    found.expect("it is there")
}

#[tokio::test(flavor = "multi_thread")]
async fn after_its_sample_an_operation_waits_for_a_person_who_sees_how_the_sample_stands() {
    let mut bench = Bench::with(12).await;
    let started = bench.start(at(SAMPLE_OF_5)).await;
    let sample = paused(bench.engine(), &started.id).await;
    assert_eq!(
        (sample.done, sample.left, sample.paused_for),
        (5, Some(7), Some(PausedFor::Sample))
    );
    assert_eq!(sample.expected_end, None);
    let redriven = bench.in_status(TaskStatus::Dispatched).await;
    assert_eq!(redriven, bench.tasks[7..], "the newest");
    // The bank is down still.
    bench.site.serve(4);
    bench
        .site
        .all_are(TaskStatus::DeadLettered, &bench.tasks)
        .await;
    bench.site.stop().await;
    let results = bench.show(&started.id).await.results.expect("results");
    assert_eq!((results.tasks, results.deleted), (5, 0));
    assert_eq!(results.by_status, [(TaskStatus::DeadLettered, 5)].into());

    // It stays so.
    bench.site.clock.advance("1d");
    let other = bench.start(at(SAMPLE_OF_5)).await;
    paused(bench.engine(), &other.id).await;
    assert_eq!(bench.show(&started.id).await.done, 5);

    bench.bank.repair();
    let resumed = resume(bench.engine(), &started.id).await;
    assert_eq!(
        (resumed.status, resumed.paused_for),
        (BulkStatus::Running, None)
    );
    let ended = bench.execute(&started.id).await;
    // The other one has decided on the same five, which were parked again.
    assert_eq!((ended.done, ended.failed, ended.left), (12, 0, Some(0)));
    let (all, is_more) = tasks(bench.engine(), &started.id, 0, 100).await;
    assert_eq!((all.len(), is_more), (12, false));
    let again = resume(bench.engine(), &started.id).await;
    assert_eq!(again.status, BulkStatus::Done, "as it is");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_a_person_pauses_begins_no_further_task_and_is_stopped_after_its_time() {
    let mut bench = Bench::with(450).await;
    let started = bench.start(redrive(None)).await;
    serve_until(bench.engine(), bench.has_begun()).await;
    bench.site.restart().await;
    let store = bench.engine().ports.store.clone();
    let pause = async || {
        let paused = bulk::pause(&store, &Tenant::default(), &started.id, "operator:kim").await;
        paused.expect("it is there")
    };
    let now = pause().await;
    assert_eq!(
        (now.status, now.paused_for),
        (BulkStatus::Paused, Some(PausedFor::Person))
    );
    let again = pause().await;
    assert_eq!(
        (again.status, again.paused_for),
        (BulkStatus::Paused, Some(PausedFor::Person))
    );
    // What was begun is finished.
    bench.site.clock.advance("61s");
    let done = serve_until_it(bench.engine(), &started.id, "its slice", |it| it.done > 0).await;
    assert_eq!((done.done, done.status), (200, BulkStatus::Paused));
    assert_eq!(bench.in_status(TaskStatus::DeadLettered).await.len(), 250);
    bench.site.clock.advance("31d");
    let stopped = bench.execute(&started.id).await;
    assert_eq!((stopped.status, stopped.done), (BulkStatus::Stopped, 200));
    // Its tasks are listed as long as it is, and go with it.
    let (all, _) = tasks(bench.engine(), &started.id, 0, 300).await;
    assert_eq!(all.len(), 200);
    bench.site.clock.advance("31d");
    let gone = eventually("no document", || async {
        let mut left = 0;
        for kind in [DocumentKind::Bulk, DocumentKind::BulkTasks] {
            let page = DocumentQuery::Page {
                kind,
                tenant: Tenant::default(),
                after: None,
                limit: 10,
            };
            left += store.documents(&page).await.expect("documents").rows.len();
        }
        (left == 0).then_some(())
    });
    serve_until(bench.engine(), gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_became_of_each_task_is_listed_page_by_page() {
    let bench = Bench::with(450).await;
    let started = bench.start(redrive(None)).await;
    bench.execute(&started.id).await;
    let mut listed = Vec::new();
    loop {
        let (page, is_more) = tasks(bench.engine(), &started.id, listed.len(), 70).await;
        listed.extend(page);
        if !is_more {
            break;
        }
    }
    let all: BTreeSet<_> = listed.iter().map(|it| it.task_id).collect();
    assert_eq!(
        (listed.len(), all),
        (450, bench.tasks.iter().copied().collect())
    );
    let is_done = |it: &BulkTask| {
        (it.outcome, it.status) == (BulkOutcome::Done, Some(TaskStatus::Dispatched))
    };
    assert!(listed.iter().all(is_done));
    for (from, most) in [
        (0, 200),
        (199, 2),
        (200, 200),
        (399, 3),
        (400, 70),
        (449, 1),
    ] {
        let (page, is_more) = tasks(bench.engine(), &started.id, from, most).await;
        let end = 450.min(from + most);
        assert_eq!(
            (&page[..], is_more),
            (&listed[from..end], end < 450),
            "{from}"
        );
    }
    assert_eq!(
        tasks(bench.engine(), &started.id, 900, 5).await,
        (Vec::new(), false)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_tasks_that_run_again_the_new_ones_are_listed() {
    let bench = Bench::with(3).await;
    let settle = BulkSpec {
        action: BulkAction::Resolve,
        settled: Some(SettledAs::NotNeeded),
        ..redrive(None)
    };
    let settled = bench.start(settle).await;
    bench.execute(&settled.id).await;
    let again = bench
        .start(spec(BulkAction::RunAgain, &[TaskStatus::Resolved]))
        .await;
    bench.execute(&again.id).await;
    let (all, _) = tasks(bench.engine(), &again.id, 0, 10).await;
    let old: BTreeSet<_> = all.iter().map(|it| it.task_id).collect();
    let new: BTreeSet<_> = all.iter().filter_map(|it| it.new_task_id).collect();
    assert_eq!(old, bench.tasks.iter().copied().collect());
    assert_eq!((new.len(), old.intersection(&new).count()), (3, 0));
    assert!(all.iter().all(|it| it.status != Some(TaskStatus::Resolved)));
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_rate_no_more_are_decided_on_than_a_minute_has_room_for() {
    let bench = Bench::with(12).await;
    let pace = Pace {
        per_minute: Some(3),
        ..Pace::default()
    };
    let started = bench.start(at(pace)).await;
    // One each 20 seconds; the clock of the test goes on by itself, too.
    for done in 1..=4 {
        let id = &started.id;
        let seen = serve_until_it(bench.engine(), id, "the next one", |it| it.done >= done).await;
        assert_eq!((seen.done, seen.left), (done, Some(12 - done)));
        bench.site.clock.advance("10s");
        let other = bench.start(at(SAMPLE_OF_5)).await;
        bulk::stop(
            &bench.engine().ports.store,
            &Tenant::default(),
            &other.id,
            "operator:kim",
        )
        .await
        .expect("it is there");
        assert_eq!(bench.show(id).await.done, done, "not before its time");
        bench.site.clock.advance("11s");
    }
    let seen = bench.show(&started.id).await;
    let end = seen.expected_end.as_ref().expect("an end");
    assert!(*end > seen.updated_at, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn at_as_many_failures_as_may_be_it_pauses_and_goes_on_when_a_person_says_so() {
    let mut bench = Bench::with(90).await;
    let pace = Pace {
        max_failures: Some(3),
        ..Pace::default()
    };
    let started = bench.start(at(pace)).await;
    // The bank is down: each that is redriven is parked again.
    bench.site.serve(4);
    let halted = paused(bench.engine(), &started.id).await;
    assert_eq!(halted.paused_for, Some(PausedFor::Failures));
    // Twenty are under way, and two that have failed are not any more.
    assert!((3..=22).contains(&halted.done), "{halted:?}");
    bench
        .site
        .all_are(TaskStatus::DeadLettered, &bench.tasks)
        .await;
    bench.bank.repair();
    resume(bench.engine(), &started.id).await;
    let ended = bench.execute(&started.id).await;
    assert_eq!((ended.status, ended.done), (BulkStatus::Done, 90));
    let (all, _) = tasks(bench.engine(), &started.id, 0, 100).await;
    // Those before the pause failed once more.
    let good: Vec<_> = all[halted.done as usize..]
        .iter()
        .map(|it| it.task_id)
        .collect();
    bench.site.all_are(TaskStatus::Completed, &good).await;
}

const BANK: BreakerPolicy = BreakerPolicy::named("bank")
    .after_failures(1)
    .open_for("1m");

struct AskBank;

#[distributed_task(name = "AskBank", queue = "asks")]
impl AskBank {
    type Request = Charge;
    type Response = u32;

    #[step(
        1,
        host = "worker",
        retry = RetryPolicy::NONE,
        breaker = BANK,
        on_exhausted = "dead_letter",
        no_undo = "a look"
    )]
    async fn ask(req: &Charge, is_up: &State<Arc<AtomicBool>>) -> StepResult<u32> {
        match is_up.load(Ordering::SeqCst) {
            true => Ok(req.cause),
            false => Err(StepError::transient("the bank is down")),
        }
    }

    fn respond(ask: &u32) -> u32 {
        *ask
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_breaker_of_its_tasks_is_open_it_waits_and_what_is_settled_waits_for_none() {
    let is_up = Arc::new(AtomicBool::new(false));
    let harness = Harness::embedded(only::<AskBank>()).provide(is_up.clone());
    let mut site = harness.start().await;
    let task = site.submit(Form::new().field("cause", 7)).await;
    site.serve(1);
    site.all_are(TaskStatus::DeadLettered, &[task]).await;
    is_up.store(true, Ordering::SeqCst);
    let pace = Pace {
        per_minute: Some(600),
        ..Pace::default()
    };
    let started = bulk::start(&site.engine, at(pace)).await.expect("started");
    let held = serve_until_it(&site.engine, &started.id, "its wait", |it| {
        it.waits_for.is_some()
    })
    .await;
    assert_eq!(
        (held.status, held.done, held.waits_for.as_deref()),
        (
            BulkStatus::Running,
            0,
            Some("the circuit breaker `bank`, which is open")
        )
    );
    site.clock.advance("61s");
    let ended = execute(&site.engine, &started.id).await;
    assert_eq!((ended.done, ended.waits_for), (1, None));
    site.all_are(TaskStatus::Completed, &[task]).await;

    is_up.store(false, Ordering::SeqCst);
    let other = site.submit(Form::new().field("cause", 8)).await;
    site.all_are(TaskStatus::DeadLettered, &[other]).await;
    let settle = BulkSpec {
        action: BulkAction::Resolve,
        settled: Some(SettledAs::NotNeeded),
        ..at(pace)
    };
    let settled = bulk::start(&site.engine, settle).await.expect("started");
    assert_eq!(execute(&site.engine, &settled.id).await.done, 1);
}

/// A day passes before it is asked again.
const PATIENT: RetryPolicy = RetryPolicy::constant("1d").max_retries(3);

struct AskPatiently;

#[distributed_task(name = "AskPatiently", queue = "asks")]
impl AskPatiently {
    type Request = Charge;
    type Response = u32;

    #[step(
        1,
        host = "worker",
        retry = PATIENT,
        on_exhausted = "dead_letter",
        no_undo = "a look"
    )]
    async fn ask(req: &Charge, is_up: &State<Arc<AtomicBool>>) -> StepResult<u32> {
        match is_up.load(Ordering::SeqCst) {
            true => Err(StepError::transient("the bank is slow")),
            false => Err(StepError::permanent(format!("no account {}", req.cause))),
        }
    }

    fn respond(ask: &u32) -> u32 {
        *ask
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_wait_for_a_retry_are_under_way() {
    let is_slow = Arc::new(AtomicBool::new(false));
    let harness = Harness::embedded(only::<AskPatiently>()).provide(is_slow.clone());
    let mut site = harness.start().await;
    let mut all = Vec::new();
    for cause in 0..30 {
        all.push(site.submit(Form::new().field("cause", cause)).await);
    }
    site.serve(8);
    site.all_are(TaskStatus::DeadLettered, &all).await;
    is_slow.store(true, Ordering::SeqCst);
    let pace = Pace {
        max_failures: Some(3),
        ..Pace::default()
    };
    let started = bulk::start(&site.engine, at(pace)).await.expect("started");
    let held = serve_until_it(&site.engine, &started.id, "its wait", |it| {
        it.waits_for.is_some()
    })
    .await;
    assert_eq!((held.done, held.gone_wrong), (20, Some(0)));
    let waits_for = held.waits_for.expect("a reason");
    assert_eq!(waits_for, "20 of its tasks, which are under way");
}

/// A process that dies in one of its writes: before it is done, or behind it.
#[derive(Debug)]
struct Dies {
    left: AtomicI64,
    behind: bool,
    dead: Arc<Notify>,
}

impl Dies {
    /// Whether it dies in this write.
    async fn strikes(&self) -> bool {
        match self.left.fetch_sub(1, Ordering::SeqCst) {
            1.. => false,
            0 => true,
            // It is dead.
            _ => pending().await,
        }
    }

    async fn end(&self) -> ! {
        self.dead.notify_one();
        pending().await
    }
}

#[async_trait]
impl Around for Dies {
    async fn commit(
        &self,
        store: &dyn Storage,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        let strikes = self.strikes().await;
        if strikes && !self.behind {
            self.end().await;
        }
        let committed = store.commit(guard, changes).await;
        if strikes {
            self.end().await;
        }
        committed
    }

    async fn put(
        &self,
        store: &dyn Storage,
        writes: &[DocumentWrite],
    ) -> Result<DocumentsPut, StoreError> {
        let strikes = self.strikes().await;
        if strikes && !self.behind {
            self.end().await;
        }
        let put = store.put(writes).await;
        if strikes {
            self.end().await;
        }
        put
    }
}

/// A person who resumes the operation after its sample, until it has ended.
async fn seen_to(engine: &Engine, id: &str) -> BulkView {
    eventually("its end", || async {
        let seen = show(engine, id).await;
        if seen.paused_for == Some(PausedFor::Sample) {
            assert_eq!((seen.done, seen.failed), (3, 0), "a sample of three");
            resume(engine, id).await;
        }
        seen.status.has_ended().then_some(seen)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn wherever_a_process_dies_each_task_is_decided_on_once_and_none_before_its_turn() {
    const PACE: Pace = Pace {
        sample: Some(3),
        per_minute: Some(60_000),
        max_failures: Some(5),
    };
    let mut died = 0;
    for write in 0.. {
        let mut lived = false;
        for behind in [false, true] {
            let bench = Bench::with(7).await;
            let started = bench.start(at(PACE)).await;
            let dead = Arc::new(Notify::new());
            let dies = Dies {
                left: AtomicI64::new(write),
                behind,
                dead: dead.clone(),
            };
            let mut engine = bench.engine().clone();
            (engine.ports.store, _) = engine
                .ports
                .store
                .through(|storage| Through::new(storage, dies));
            let ended = tokio::select! {
                biased;
                () = serve_until(&engine, dead.notified()) => None,
                ended = seen_to(bench.engine(), &started.id) => Some(ended),
            };
            let ended = match ended {
                Some(ended) => {
                    lived = true;
                    ended
                }
                None => {
                    died += 1;
                    bench.site.clock.advance("61s");
                    serve_until(bench.engine(), seen_to(bench.engine(), &started.id)).await
                }
            };
            let what = format!("write {write}, behind it: {behind}");
            assert_eq!(
                (ended.status, ended.done, ended.failed, ended.skipped),
                (BulkStatus::Done, 7, 0, 0),
                "{what}"
            );
            let (all, _) = tasks(bench.engine(), &started.id, 0, 100).await;
            let mut listed: Vec<TaskId> = all.iter().map(|it| it.task_id).collect();
            listed.sort_unstable();
            assert_eq!(listed, bench.tasks, "{what}");
            for task in &bench.tasks {
                assert_eq!(
                    bench.redriven(*task, &started.id).await,
                    1,
                    "{what}: {task}"
                );
            }
        }
        if lived {
            break;
        }
    }
    // A claim, its tasks and their count, twice.
    assert!(died >= 2 * (2 * 2 + 7), "it died {died} times only");
}
