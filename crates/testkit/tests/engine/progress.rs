//! What running attempts say of their progress: it is known while they run, told seldom however
//! often it is said, never taken for another attempt's, and no task needs it.

use crate::errand::{QUICK, only};
use crate::manual::{Mute, TestHints};
use async_trait::async_trait;
use counterstep_contracts::{
    Attempt, AttemptProgress, Direction, Epoch, TaskId, TaskProgress, TaskStatus,
};
use counterstep_kernel::ports::{HintError, Hints, Signal};
use counterstep_kernel::{Engine, status::progress};
use counterstep_macros::distributed_task;
use counterstep_steps::{Meter, StepContext, StepError, StepResult, UndoResult};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, Site};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, mpsc};

/// What a walker is told to do next.
#[derive(Debug)]
enum Do {
    Say(u64, u64),
    SayWith(u64, u64, &'static str),
    Fail,
    Arrive,
}

type Orders = Arc<AsyncMutex<mpsc::UnboundedReceiver<Do>>>;
static ORDERS: LazyLock<Mutex<HashMap<u64, Orders>>> = LazyLock::new(Mutex::default);
static METERS: LazyLock<Mutex<HashMap<u64, Meter>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Path {
    /// Whose orders count.
    walker: u64,
}

pub(crate) struct Walk;

#[distributed_task(name = "Walk", queue = "walks", cancellable)]
impl Walk {
    type Request = Path;
    type Response = u8;

    #[step(1, host = "worker", retry = QUICK, undo = walk_back)]
    async fn walk(ctx: &StepContext, path: &Path) -> StepResult<u8> {
        METERS.lock().unwrap().insert(path.walker, ctx.meter());
        follow(ctx, path).await.map(|()| 1)
    }

    async fn walk_back(ctx: &StepContext, path: &Path) -> UndoResult {
        follow(ctx, path).await
    }

    #[step(2, host = "worker", no_undo = "test")]
    async fn rest(walk: &u8) -> StepResult<u16> {
        Ok(u16::from(*walk))
    }

    fn respond(walk: &u8) -> u8 {
        *walk
    }
}

async fn follow(ctx: &StepContext, path: &Path) -> StepResult<()> {
    let orders = ORDERS
        .lock()
        .unwrap()
        .get(&path.walker)
        .expect("orders")
        .clone();
    let mut orders = orders.lock().await;
    while let Some(order) = orders.recv().await {
        match order {
            Do::Say(done, total) => ctx.progress(done, total),
            Do::SayWith(done, total, message) => ctx.progress_with(done, total, message),
            Do::Fail => return Err(StepError::transient("stumbled")),
            Do::Arrive => return Ok(()),
        }
    }
    Err(StepError::permanent("no orders come"))
}

/// A walker of its own, and its orders.
fn walker() -> (Form, mpsc::UnboundedSender<Do>, u64) {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let (walker, (orders, taken)) = (
        NEXT.fetch_add(1, Ordering::Relaxed) as u64,
        mpsc::unbounded_channel(),
    );
    ORDERS
        .lock()
        .unwrap()
        .insert(walker, Arc::new(AsyncMutex::new(taken)));
    (Form::new().field("walker", walker), orders, walker)
}

async fn site(hints: Arc<dyn Hints>) -> Site {
    let mut site = Harness::embedded(only::<Walk>()).start().await;
    site.engine.ports.hints = hints;
    site.serve(4);
    site
}

/// Direction, attempt, how far and out of how much, of the walk.
type Seen = (Direction, i32, u64, u64);

async fn seen(engine: &Engine, task: TaskId) -> Option<Seen> {
    let record = engine
        .ports
        .store
        .load(task)
        .await
        .expect("the store answers")
        .expect("the task exists");
    let told = progress::progress_of(engine, &record).await?;
    let AttemptProgress {
        direction,
        attempt,
        done,
        total,
        ..
    } = told.steps["walk"].clone();
    Some((direction, attempt.0, done, total))
}

async fn until_seen(engine: &Engine, task: TaskId, wanted: Seen) {
    eventually(&format!("{wanted:?}"), || async move {
        (seen(engine, task).await == Some(wanted)).then_some(())
    })
    .await;
}

/// Counts how often something is kept.
#[derive(Debug, Default)]
struct Counting(TestHints, AtomicUsize);

#[async_trait]
impl Hints for Counting {
    async fn seen(&self, key: &str) -> Result<bool, HintError> {
        self.0.seen(key).await
    }
    async fn remember(&self, key: &str, ttl: Duration) -> Result<(), HintError> {
        self.0.remember(key, ttl).await
    }
    async fn bump(&self, counter: &str, window: Duration) -> Result<u64, HintError> {
        self.0.bump(counter, window).await
    }
    async fn get(&self, key: &str) -> Result<Option<String>, HintError> {
        self.0.get(key).await
    }
    async fn set(&self, key: &str, value: &str, ttl: Duration) -> Result<(), HintError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.set(key, value, ttl).await
    }
    async fn swap(
        &self,
        key: &str,
        was: Option<&str>,
        value: &str,
        ttl: Duration,
    ) -> Result<bool, HintError> {
        self.0.swap(key, was, value, ttl).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_is_told_once_and_its_last_word_is_not_lost() {
    let hints = Arc::new(Counting::default());
    let site = site(hints.clone()).await;
    let (form, orders, _) = walker();
    let mut signals = site.engine.ports.signals.subscribe();
    let task = site.submit(form).await;
    orders.send(Do::Say(0, 5_000)).unwrap();
    until_seen(&site.engine, task, (Direction::Forward, 1, 0, 5_000)).await;
    // Within the pause after the first.
    for done in 1..=5_000 {
        orders.send(Do::Say(done, 5_000)).unwrap();
    }
    until_seen(&site.engine, task, (Direction::Forward, 1, 5_000, 5_000)).await;
    let told = hints.1.load(Ordering::Relaxed);
    assert!((2..100).contains(&told), "told {told} times");
    orders.send(Do::Arrive).unwrap();
    site.all_are(TaskStatus::Completed, &[task]).await;
    assert_eq!(seen(&site.engine, task).await, None);
    let mut heard = Vec::new();
    loop {
        match signals.next().await.expect("signals go on") {
            Signal::Progress(told) if told.task == task => heard.push(told.steps["walk"].done),
            Signal::Rests(rests) if rests == task => break,
            _ => {}
        }
    }
    assert_eq!((heard.first(), heard.last()), (Some(&0), Some(&5_000)));
    assert!(heard.is_sorted() && heard.len() <= told, "{heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_one_bounded_line_and_goes_with_what_is_said_next() {
    let site = site(Arc::new(TestHints::default())).await;
    let (form, orders, _) = walker();
    let task = site.submit(form).await;
    let message = |wanted: Option<&'static str>| {
        let site = &site;
        eventually("a message", move || async move {
            let record = site.record(task).await;
            let told = progress::progress_of(&site.engine, &record).await?;
            let said = &told.steps["walk"];
            (said.message.as_deref() == wanted).then_some(())
        })
    };
    orders.send(Do::SayWith(1, 3, "over\nthe hill")).unwrap();
    message(Some("over\\nthe hill")).await;
    orders.send(Do::Say(2, 3)).unwrap();
    message(None).await;
    let long: &'static str = "long ".repeat(1_000).leak();
    orders.send(Do::SayWith(3, 3, long)).unwrap();
    message(Some(&long[..200])).await;
    orders.send(Do::Arrive).unwrap();
    site.all_are(TaskStatus::Completed, &[task]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_attempt_or_epoch_never_shows_what_an_earlier_one_has_said() {
    let hints = Arc::new(TestHints::default());
    let site = site(hints.clone()).await;
    let (form, orders, walker) = walker();
    let task = site.submit(form).await;
    orders.send(Do::Say(70, 100)).unwrap();
    until_seen(&site.engine, task, (Direction::Forward, 1, 70, 100)).await;
    let kept = hints
        .get(&progress::key(task))
        .await
        .unwrap()
        .expect("it is kept");
    let meter = METERS.lock().unwrap()[&walker].clone();
    orders.send(Do::Fail).unwrap();
    site.all("second attempt", &[task], |record| {
        record.steps[0].attempts == Attempt(2)
    })
    .await;
    assert_eq!(seen(&site.engine, task).await, None);
    // What code tells after its attempt has ended is dropped.
    meter.tell(99, 100);
    orders.send(Do::Say(10, 100)).unwrap();
    until_seen(&site.engine, task, (Direction::Forward, 2, 10, 100)).await;

    // A host that was lost writes late: what it says is of an older attempt, or of another epoch.
    hints
        .set(&progress::key(task), &kept, Duration::from_secs(60))
        .await
        .unwrap();
    assert_eq!(seen(&site.engine, task).await, None);
    let mut late: TaskProgress = serde_json::from_str(&kept).unwrap();
    late.steps.get_mut("walk").unwrap().attempt = Attempt(2);
    let text = |progress: &TaskProgress| serde_json::to_string(progress).unwrap();
    hints
        .set(&progress::key(task), &text(&late), Duration::from_secs(60))
        .await
        .unwrap();
    assert_eq!(
        seen(&site.engine, task).await,
        Some((Direction::Forward, 2, 70, 100))
    );
    late.epoch = Epoch(late.epoch.0 + 1);
    hints
        .set(&progress::key(task), &text(&late), Duration::from_secs(60))
        .await
        .unwrap();
    assert_eq!(seen(&site.engine, task).await, None);
    hints
        .set(&progress::key(task), "no JSON", Duration::from_secs(60))
        .await
        .unwrap();
    assert_eq!(seen(&site.engine, task).await, None);

    orders.send(Do::Arrive).unwrap();
    site.all_are(TaskStatus::Completed, &[task]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_says_how_far_it_is_too() {
    let site = site(Arc::new(TestHints::default())).await;
    let (form, orders, _) = walker();
    let task = site.submit(form).await;
    orders.send(Do::Say(30, 0)).unwrap();
    until_seen(&site.engine, task, (Direction::Forward, 1, 30, 0)).await;
    for _ in 0..3 {
        orders.send(Do::Fail).unwrap();
    }
    orders.send(Do::Say(1, 30)).unwrap();
    until_seen(&site.engine, task, (Direction::Undo, 1, 1, 30)).await;
    orders.send(Do::Arrive).unwrap();
    site.all_are(TaskStatus::Failed, &[task]).await;
    assert_eq!(seen(&site.engine, task).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_that_fail_or_never_answer_cost_a_step_nothing_but_its_progress() {
    for mute in [Mute::Errs, Mute::NeverAnswers] {
        let site = site(Arc::new(mute)).await;
        let (form, orders, _) = walker();
        let mut signals = site.engine.ports.signals.subscribe();
        let task = site.submit(form).await;
        for done in 0..1_000 {
            orders.send(Do::Say(done, 1_000)).unwrap();
        }
        // Listeners receive it all the same.
        while !matches!(
            signals.next().await.expect("signals go on"),
            Signal::Progress(_)
        ) {}
        assert_eq!(seen(&site.engine, task).await, None);
        orders.send(Do::Arrive).unwrap();
        let record = site.all_are(TaskStatus::Completed, &[task]).await.remove(0);
        assert_eq!(
            (record.steps[0].attempts, record.task.recovery_attempts),
            (Attempt(1), 0)
        );
        site.assert_invariants(&[task]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_hints_of_its_own_keeps_what_it_hears() {
    let site = site(Arc::new(TestHints::default())).await;
    let mut other = site.engine.clone();
    other.ports.hints = Arc::new(TestHints::default());
    let hearing =
        progress::keep_what_is_heard(other.ports.signals.subscribe(), other.ports.hints.clone());
    let hearing = tokio::spawn(hearing);
    let (form, orders, _) = walker();
    let task = site.submit(form).await;
    for done in 1..=3 {
        orders.send(Do::Say(done, 3)).unwrap();
        until_seen(&other, task, (Direction::Forward, 1, done, 3)).await;
    }
    orders.send(Do::Arrive).unwrap();
    site.all_are(TaskStatus::Completed, &[task]).await;
    hearing.abort();
}

#[cfg(feature = "servers")]
#[tokio::test(flavor = "multi_thread")]
async fn with_redis_another_process_sees_it_and_without_it_the_step_goes_on() {
    use counterstep_adapters::redis::{RedisOptions, open};
    let server = counterstep_testkit::servers::Redis::start();
    // Not to be taken for away when the machine is busy.
    let options = RedisOptions {
        limit: Duration::from_secs(2),
        ..RedisOptions::at(&server.url())
    };
    let site = site(open(options.clone()).await.expect("it opens").hints).await;
    let mut other = site.engine.clone();
    other.ports.hints = open(options).await.expect("it opens").hints;
    let (form, orders, _) = walker();
    let task = site.submit(form).await;
    orders.send(Do::Say(1, 3)).unwrap();
    until_seen(&other, task, (Direction::Forward, 1, 1, 3)).await;
    server.flush();
    assert_eq!(seen(&other, task).await, None);
    orders.send(Do::Say(2, 3)).unwrap();
    until_seen(&other, task, (Direction::Forward, 1, 2, 3)).await;
    server.stop();
    orders.send(Do::Say(3, 3)).unwrap();
    orders.send(Do::Arrive).unwrap();
    let record = site.all_are(TaskStatus::Completed, &[task]).await.remove(0);
    assert_eq!(record.steps[0].attempts, Attempt(1));
}
