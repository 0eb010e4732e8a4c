//! Groups: side by side, each step under its own policy, failing together, undone together.

use crate::cancel::until;
use crate::errand::{QUICK, SLOW, only};
use crate::limits::{inside, service};
use crate::policies;
use counterstep_contracts::{Host, StepStatus, TaskStatus, WaitReason};
use counterstep_kernel::client;
use counterstep_kernel::ports::Clock;
use counterstep_kernel::turn::turn;
use counterstep_macros::distributed_task;
use counterstep_steps::{
    AwaitSignal, AwaitTask, CancelReason, CancelToken, Registry, RetryPolicy, StepContext,
    StepError, StepResult, UndoResult,
};
use counterstep_testkit::clock::{until_works, work_for};
use counterstep_testkit::{Form, Harness, TestClock, TestTask};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What each of the crew does.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Day {
    /// How long it works, in milliseconds; heeds its token.
    smith_ms: u64,
    /// How many times it fails before it succeeds.
    baker_fails: i32,
    /// The same; its delays are long.
    miller_fails: i32,
    /// Milliseconds after its start at which it fails permanently.
    miller_quits_after: Option<u64>,
    /// Whether the mayor is asked.
    asks: bool,
    /// Whether there is a brewer at all.
    brews: bool,
}

pub(crate) struct Crew;

pub(crate) const SLOWER: RetryPolicy = RetryPolicy::constant("2500ms").max_retries(2).jitter(false);

#[distributed_task(name = "Crew", queue = "crew")]
impl Crew {
    type Request = Day;
    type Response = u32;

    #[step(1, host = "worker", undo = close)]
    async fn open(_ctx: &StepContext) -> StepResult<u8> {
        Ok(1)
    }

    async fn close(_out: Option<u8>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", group = "crew", retry = SLOWER, undo = unforge)]
    async fn smith(ctx: &StepContext, day: &Day) -> StepResult<u16> {
        if day.smith_ms == 1 && ctx.attempt().0 == 1 {
            return Err(StepError::transient("the fire is out"));
        }
        tokio::select! {
            () = work_for(ctx.task_id(), Duration::from_millis(day.smith_ms)) => Ok(2),
            _ = ctx.cancel().cancelled() => Err(StepError::cancelled()),
        }
    }

    async fn unforge(_out: Option<u16>) -> UndoResult {
        Ok(())
    }

    #[step(3, host = "worker", group = "crew", retry = QUICK, undo = uneat)]
    async fn baker(ctx: &StepContext, day: &Day) -> StepResult<u32> {
        if ctx.attempt().0 <= day.baker_fails {
            return Err(StepError::transient("the oven is cold"));
        }
        Ok(3)
    }

    async fn uneat(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(4, host = "worker", group = "crew", retry = SLOW, undo = unmill)]
    async fn miller(ctx: &StepContext, day: &Day) -> StepResult<u64> {
        if let Some(after) = day.miller_quits_after {
            work_for(ctx.task_id(), Duration::from_millis(after)).await;
            return Err(StepError::permanent("no grain"));
        }
        if ctx.attempt().0 <= day.miller_fails {
            return Err(StepError::transient("no wind"));
        }
        Ok(4)
    }

    async fn unmill(_out: Option<u64>) -> UndoResult {
        Ok(())
    }

    #[step(5, host = "worker", group = "crew", when = asks)]
    fn mayor(_day: &Day) -> AwaitSignal<bool> {
        AwaitSignal::within("72h")
    }

    fn asks(day: &Day) -> bool {
        day.asks
    }

    #[step(6, host = "worker", group = "crew", when = brews, no_undo = "drunk")]
    async fn brewer(_day: &Day) -> StepResult<i8> {
        Ok(5)
    }

    fn brews(day: &Day, open: &u8) -> bool {
        day.brews && *open == 1
    }

    #[step(7, host = "worker", no_undo = "test")]
    async fn feast(baker: &u32, brewer: Option<&i8>) -> StepResult<i32> {
        let _ = brewer;
        Ok(i32::try_from(*baker).unwrap_or(0))
    }

    fn respond(baker: &u32) -> u32 {
        *baker
    }
}

async fn crew(form: Form) -> TestTask {
    let long = Duration::from_secs(60);
    Harness::embedded(only::<Crew>())
        .settings(|settings| settings.step_timeout = long)
        .submit(form)
        .await
}

/// Places of these words in the trail, which must all be there.
async fn in_order(task: &TestTask, words: &[&str]) {
    let trail = task.trail().await;
    let mut rest = trail.as_str();
    for word in words {
        let at = rest
            .find(word)
            .unwrap_or_else(|| panic!("`{word}` is not where it is expected in: {trail}"));
        rest = &rest[at + word.len()..];
    }
}

async fn changes(
    task: &TestTask,
    event: &str,
    steps: &[i32],
) -> Vec<counterstep_contracts::ChangeId> {
    let history = task.history().await;
    let of = |no: i32| {
        let entry = history
            .audit
            .iter()
            .rfind(|row| row.entry.event == event && row.entry.step.is_some_and(|s| s.0 == no));
        entry
            .unwrap_or_else(|| panic!("{event} of step {no}"))
            .change_id
    };
    steps.iter().map(|no| of(*no)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_step_retries_while_its_sibling_runs() {
    let task = crew(Form::new().field("smith_ms", 3000).field("baker_fails", 2)).await;
    let works = async {
        until(&task, |record| {
            record.steps[2].status == StepStatus::Completed
        })
        .await;
        until_works(task.id).await;
        task.clock.advance("3s");
    };
    let (status, ()) = futures::join!(task.run_to_rest(), works);
    assert_eq!(status, TaskStatus::Completed);
    in_order(
        &task,
        &[
            "baker retries",
            "baker retries",
            "baker ok",
            "smith ok",
            "feast ok, completed",
        ],
    )
    .await;
    task.assert_invariants().await;
    assert_eq!(
        task.record().await.task.epoch.0,
        1,
        "one claim: it did not sleep meanwhile"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_sleeps_only_once_no_sibling_runs_any_more() {
    // The miller's delay is still long when the smith is done, on a slow machine too.
    let delay = Some(Duration::from_secs(4));
    let harness = policies::with("SLOW", only::<Crew>(), |set| {
        (set.base, set.cap) = (delay, delay)
    });
    let task = harness
        .submit(Form::new().field("smith_ms", 400).field("miller_fails", 1))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    in_order(
        &task,
        &[
            "miller retries",
            "smith ok",
            "miller ok",
            "feast ok, completed",
        ],
    )
    .await;
    task.assert_invariants().await;
    let history = task.history().await;
    let place = |event: &str, step: Option<i32>| {
        history
            .audit
            .iter()
            .position(|row| row.entry.event == event && row.entry.step.map(|no| no.0) == step)
    };
    assert!(
        place("waits", None) > place("step_succeeded", Some(2)),
        "{}",
        task.trail().await
    );
    let sleeps = history
        .audit
        .iter()
        .filter(|row| row.entry.event == "waits");
    assert_eq!(sleeps.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeping_group_wakes_for_the_first_that_is_due() {
    // The smith waits for 2.5 s, the miller for 1.5 s.
    let task = crew(Form::new().field("smith_ms", 1).field("miller_fails", 1)).await;
    turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await;
    let asleep = task.record().await;
    assert_eq!(
        (asleep.task.status, asleep.task.waiting),
        (TaskStatus::Waiting, Some(WaitReason::Retry))
    );
    let dues: Vec<_> = [1, 3]
        .map(|at: usize| asleep.steps[at].due_at.expect("due"))
        .into();
    assert!(
        dues[1] < dues[0] && asleep.task.due_at.expect("due") < dues[0],
        "{asleep:?}"
    );
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    in_order(&task, &["smith retries", "miller ok", "smith ok"]).await;
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_to_give_up_stops_the_others_and_all_are_undone_side_by_side() {
    let form = Form::new()
        .field("smith_ms", 60_000)
        .field("asks", true)
        .field("brews", true);
    let task = crew(form.field("miller_quits_after", 300)).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_invariants().await;
    in_order(&task, &["mayor waits", "miller failed", "smith failed"]).await;
    let record = task.record().await;
    assert_eq!(
        record.task.failure.expect("a failure").step.as_deref(),
        Some("miller")
    );
    let undos = changes(&task, "undo_started", &[2, 3, 4]).await;
    assert!(
        undos.iter().all(|change| *change == undos[0]),
        "one change starts all of them"
    );
    assert!(
        task.trail().await.ends_with("open undone, failed"),
        "{}",
        task.trail().await
    );
    let waived = record
        .steps
        .iter()
        .find(|row| row.name == "brewer")
        .expect("a row");
    assert_eq!(waived.status, StepStatus::Completed, "waived, and said so");
    assert!(task.trail().await.contains("brewer waived"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sibling_that_waits_for_its_retry_does_not_start_again_once_another_gave_up() {
    let task = crew(
        Form::new()
            .field("miller_quits_after", 500)
            .field("smith_ms", 1),
    )
    .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_invariants().await;
    let record = task.record().await;
    assert_eq!(record.steps[1].attempts.0, 1, "{}", task.trail().await);
    assert!(
        task.trail().await.contains("smith undone"),
        "it started, so it is undone"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_comes_while_a_sibling_runs_is_used_without_a_sleep() {
    let task = crew(Form::new().field("smith_ms", 2500).field("asks", true)).await;
    let answer = async {
        until(&task, |record| {
            record.steps[4].status == StepStatus::Waiting
        })
        .await;
        assert_eq!(
            task.record().await.task.status,
            TaskStatus::Running,
            "the smith still works"
        );
        client::signal(&task.engine, task.id, "mayor", json!(true), "client")
            .await
            .expect("accepted");
        until_works(task.id).await;
        task.clock.advance("2500ms");
    };
    let (status, ()) = futures::join!(task.run_to_rest(), answer);
    assert_eq!(status, TaskStatus::Completed);
    in_order(
        &task,
        &["mayor waits", "mayor signalled", "mayor ok", "feast ok"],
    )
    .await;
    task.assert_invariants().await;
    assert_eq!(task.record().await.task.epoch.0, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_sleeps_for_a_signal_once_the_others_have_ended() {
    let task = crew(Form::new().field("smith_ms", 50).field("asks", true)).await;
    turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await;
    let asleep = task.record().await;
    assert_eq!(
        (asleep.task.status, asleep.task.waiting),
        (TaskStatus::Waiting, Some(WaitReason::Signal))
    );
    assert_eq!(
        asleep
            .steps
            .iter()
            .filter(|row| row.status == StepStatus::Completed)
            .count(),
        4
    );
    client::signal(&task.engine, task.id, "mayor", json!(true), "client")
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_invariants().await;
}

/// A letter that a task of its own posts.
struct PostLetter;

#[distributed_task(name = "PostLetter", queue = "letters")]
impl PostLetter {
    type Request = Day;
    type Response = u32;

    #[step(1, host = "worker", undo = recall)]
    async fn post(_day: &Day) -> StepResult<u32> {
        Ok(1)
    }

    async fn recall(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    fn respond(post: &u32) -> u32 {
        *post
    }
}

/// Its letter comes before its stall, which is undone after it.
struct Fair;

#[distributed_task(name = "Fair", queue = "fairs")]
impl Fair {
    type Request = Day;
    type Response = i32;

    #[step(1, host = "worker", group = "fair")]
    fn letter(day: &Day) -> AwaitTask<PostLetter> {
        AwaitTask::of(day)
    }

    #[step(2, host = "worker", group = "fair", no_undo = "it was heard")]
    async fn announce(_day: &Day) -> StepResult<u8> {
        Ok(1)
    }

    #[step(3, host = "worker", group = "fair", undo = take_down)]
    async fn put_up(_day: &Day) -> StepResult<u16> {
        Ok(2)
    }

    async fn take_down(_out: Option<u16>) -> UndoResult {
        Ok(())
    }

    #[step(4, host = "worker", no_undo = "test")]
    async fn open(_day: &Day) -> StepResult<i32> {
        Err(StepError::permanent("it rains"))
    }

    fn respond(open: &i32) -> i32 {
        *open
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waivers_in_a_group_are_recorded_in_whatever_order_the_others_are_undone() {
    let types = Registry::new().with::<Fair>().with::<PostLetter>();
    let task = Harness::embedded(types).submit(Form::to::<Fair>()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let trail = task.trail().await;
    assert_eq!(trail.matches("announce waived").count(), 1, "{trail}");
    assert_eq!(trail.matches("open waived").count(), 1, "{trail}");
    task.assert_invariants().await;
}

const UNDONE_LATER: RetryPolicy = RetryPolicy::constant("60s").max_retries(2).jitter(false);

/// Of its two undos one waits long for its next try, and the other takes its time.
struct Raft;

#[distributed_task(name = "Raft", queue = "crew")]
impl Raft {
    type Request = Day;
    type Response = ();

    #[step(1, host = "worker", group = "raft", undo = unsail, undo_retry = UNDONE_LATER)]
    async fn sail(_ctx: &StepContext) -> StepResult<u8> {
        Ok(1)
    }

    async fn unsail(ctx: &StepContext, _out: Option<u8>) -> UndoResult {
        match ctx.attempt().0 {
            1 => Err(StepError::transient("no wind")),
            _ => Ok(()),
        }
    }

    #[step(2, host = "worker", group = "raft", undo = unrow)]
    async fn row(_ctx: &StepContext) -> StepResult<u16> {
        Ok(2)
    }

    async fn unrow(_out: Option<u16>) -> UndoResult {
        service("raft").call().await;
        Ok(())
    }

    #[step(3, host = "worker", no_undo = "does nothing")]
    async fn land(_day: &Day) -> StepResult<u32> {
        Err(StepError::permanent("no land"))
    }

    fn respond() {}
}

/// Counts the delays that are begun.
#[derive(Debug)]
struct Counted {
    clock: TestClock,
    delays: AtomicUsize,
}

impl Clock for Counted {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn unix_millis(&self) -> u64 {
        self.clock.unix_millis()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.delays.fetch_add(1, Ordering::SeqCst);
        self.clock.sleep(duration)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_in_the_undo_of_a_group_decides_nothing_again_and_again() {
    let mut site = Harness::embedded(only::<Raft>())
        .settings(|settings| settings.drain = Duration::ZERO)
        .start()
        .await;
    let clock = Arc::new(Counted {
        clock: site.clock.clone(),
        delays: AtomicUsize::new(0),
    });
    site.engine.ports.clock = clock.clone();
    let task = site.submit(Form::new()).await;
    let shutdown = CancelToken::new();
    let turn = {
        let (engine, shutdown) = (site.engine.clone(), shutdown.clone());
        tokio::spawn(async move { turn(&engine, Host::Worker, task, &shutdown).await })
    };
    let rows = service("raft");
    inside(&rows, 1).await;
    site.all("an undo that is to be tried again", &[task], |record| {
        record.steps[0].undo_retries_used == 1
    })
    .await;
    let before = clock.delays.load(Ordering::SeqCst);
    shutdown.cancel(CancelReason::Shutdown);
    // Far more than it takes to come round a hundred times.
    for _ in 0..2_000 {
        site.record(task).await;
    }
    let delays = clock.delays.load(Ordering::SeqCst) - before;
    assert!(delays < 50, "{delays}");
    rows.gate.add_permits(1);
    turn.await.expect("no panic");
    site.clock.advance("60s");
    site.serve(1);
    site.all_are(TaskStatus::Failed, &[task]).await;
    site.stop().await;
    site.assert_invariants(&[task]).await;
}
