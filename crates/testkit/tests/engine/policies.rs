//! What retry policies mean, read back from the audit: how often, how long between, how long each,
//! and what the settings change of it.

use crate::errand::{Errand, Stubborn, only};
use counterstep_contracts::{Outcome, Overrides, RetryOverride, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::record::History;
use counterstep_macros::distributed_task;
use counterstep_steps::policies::Policies;
use counterstep_steps::{RetryPolicy, StepContext, StepError, StepResult, UndoResult};
use counterstep_testkit::clock::{until_works, work_for};
use counterstep_testkit::{Form, Harness, Site};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

const EVEN: RetryPolicy = RetryPolicy::constant("10ms").max_retries(3).jitter(false);
const RISING: RetryPolicy = RetryPolicy::linear("10ms").max_retries(3).jitter(false);
const DOUBLING: RetryPolicy = RetryPolicy::exponential("10ms")
    .max_retries(3)
    .jitter(false);
const CAPPED: RetryPolicy = RetryPolicy::exponential("10ms")
    .max_retries(3)
    .jitter(false)
    .cap("15ms");
const SPREAD: RetryPolicy = RetryPolicy::constant("40ms").max_retries(3);

struct Shapes;

#[distributed_task(name = "Shapes", queue = "shapes")]
impl Shapes {
    type Request = Script;
    type Response = ();

    #[step(1, host = "worker", retry = EVEN, no_undo = "test")]
    async fn even() -> StepResult<()> {
        Ok(())
    }

    #[step(2, host = "worker", retry = RISING, no_undo = "test")]
    async fn rising() -> StepResult<()> {
        Ok(())
    }

    #[step(3, host = "worker", retry = DOUBLING, no_undo = "test")]
    async fn doubling() -> StepResult<()> {
        Ok(())
    }

    #[step(4, host = "worker", retry = CAPPED, no_undo = "test")]
    async fn capped() -> StepResult<()> {
        Ok(())
    }

    #[step(5, host = "worker", retry = SPREAD, no_undo = "test")]
    async fn spread() -> StepResult<()> {
        Ok(())
    }

    fn respond() {}
}

/// The delays after the failures of a step, in milliseconds.
fn delays(history: &History, step: i32) -> Vec<u64> {
    let retries = history
        .audit
        .iter()
        .map(|row| &row.entry)
        .filter(|entry| entry.event == "step_retries");
    retries
        .filter(|entry| entry.step.is_some_and(|no| no.0 == step))
        .map(|entry| entry.details["delay_ms"].as_u64().expect("a number"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn delays_have_the_shape_of_the_policy_and_the_last_retry_may_succeed() {
    let mut harness = Harness::embedded(only::<Shapes>());
    for step in ["even", "rising", "doubling", "capped", "spread"] {
        for attempt in 1..=3 {
            harness =
                harness.fault(Fault::at(step, FaultKind::FailTransiently).on_attempt(attempt));
        }
    }
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let history = task.history().await;
    assert_eq!(delays(&history, 1), [10, 10, 10]);
    assert_eq!(delays(&history, 2), [10, 20, 30]);
    assert_eq!(delays(&history, 3), [10, 20, 40]);
    assert_eq!(delays(&history, 4), [10, 15, 15]);
    let spread = delays(&history, 5);
    assert!(
        spread.len() == 3 && spread.iter().all(|delay| (20..=40).contains(delay)),
        "{spread:?}"
    );
    for row in &task.record().await.steps {
        assert_eq!(
            (row.attempts.0, row.retries_used),
            (4, 3),
            "{}: three tries after the first",
            row.name
        );
    }
    assert!(
        !history.audit.iter().any(|row| row.entry.event == "waits"),
        "below a second no task sleeps"
    );
    task.assert_invariants().await;
}

/// What `say` answers, by attempt, and how long its undo takes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Script {
    /// For each attempt `busy`, `wait MS`, `no`, `hang`; `ok` after the last.
    answers: Vec<String>,
    undo_ms: u64,
}

const HOURLY: RetryPolicy = RetryPolicy::constant("1h").max_retries(5);
const LIMITED: RetryPolicy = RetryPolicy::constant("1ms")
    .max_retries(2)
    .attempt_timeout("150ms");

struct Scripted;

#[distributed_task(name = "Scripted", queue = "scripted", cancellable)]
impl Scripted {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", retry = HOURLY, undo = unsay)]
    async fn say(ctx: &StepContext, script: &Script) -> StepResult<u32> {
        answer(ctx.attempt().0, script).await
    }

    async fn unsay(ctx: &StepContext, script: &Script, _out: Option<u32>) -> UndoResult {
        work_for(ctx.task_id(), Duration::from_millis(script.undo_ms)).await;
        Ok(())
    }

    fn respond(said: &u32) -> u32 {
        *said
    }
}

struct Limited;

#[distributed_task(name = "Limited", queue = "limited")]
impl Limited {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", undo = unmark)]
    async fn mark() -> StepResult<bool> {
        Ok(true)
    }

    async fn unmark(_out: Option<bool>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", retry = LIMITED, no_undo = "test")]
    async fn say(ctx: &StepContext, script: &Script) -> StepResult<u32> {
        answer(ctx.attempt().0, script).await
    }

    fn respond(said: &u32) -> u32 {
        *said
    }
}

/// Longer than the whole of a `Brief` may take, in milliseconds.
const SLOW_UNDO: u64 = 3_200;

/// Long enough for a busy machine to start it.
struct Brief;

#[distributed_task(name = "Brief", queue = "brief", timeout = "3s")]
impl Brief {
    type Request = Script;
    type Response = u32;

    #[step(1, host = "worker", retry = HOURLY, undo = unsay)]
    async fn say(ctx: &StepContext, script: &Script) -> StepResult<u32> {
        answer(ctx.attempt().0, script).await
    }

    async fn unsay(ctx: &StepContext, script: &Script, _out: Option<u32>) -> UndoResult {
        work_for(ctx.task_id(), Duration::from_millis(script.undo_ms)).await;
        Ok(())
    }

    fn respond(said: &u32) -> u32 {
        *said
    }
}

async fn answer(attempt: i32, script: &Script) -> StepResult<u32> {
    let at = usize::try_from(attempt - 1).unwrap_or(usize::MAX);
    let text = script.answers.get(at).map_or("ok", String::as_str);
    match text.split_once(' ').unwrap_or((text, "")) {
        ("ok", _) => Ok(7),
        ("busy", _) => Err(StepError::transient("busy")),
        ("wait", ms) => Err(StepError::rate_limited(
            Duration::from_millis(ms.parse().unwrap_or(0)),
            "not so fast",
        )),
        ("hang", _) => std::future::pending().await,
        _ => Err(StepError::permanent("no")),
    }
}

fn script(answers: &[&str]) -> Form {
    Form::new().field("answers", answers)
}

fn waits_for_a_retry(record: &counterstep_kernel::record::TaskRecord) -> bool {
    record.task.waiting == Some(WaitReason::Retry)
}

async fn submit(site: &Site, form: &Form, count: usize) -> Vec<TaskId> {
    let mut tasks = Vec::new();
    for _ in 0..count {
        tasks.push(site.submit(form.clone()).await);
    }
    tasks
}

#[tokio::test(flavor = "multi_thread")]
async fn one_worker_of_one_slot_completes_other_tasks_while_ten_wait_for_their_due_time() {
    let mut site = Harness::embedded(only::<Scripted>()).start().await;
    site.serve(1);
    let patient = submit(&site, &script(&["busy"]), 10).await;
    for record in site
        .all("waiting for a retry", &patient, waits_for_a_retry)
        .await
    {
        assert_eq!(record.task.lease_owner, None, "the lease is released");
        assert!(
            record.due_in() > Duration::ZERO,
            "the due time is in the row"
        );
    }
    let quick = submit(&site, &script(&[]), 20).await;
    site.all_are(TaskStatus::Completed, &quick).await;
    for task in &patient {
        let record = site.record(*task).await;
        assert!(
            waits_for_a_retry(&record) && record.steps[0].attempts.0 == 1,
            "{:?}",
            record.steps
        );
    }
    site.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limit_is_honoured_beyond_delay_and_cap() {
    let short = Policies::checked(
        &only::<Scripted>(),
        override_of("HOURLY", |set| {
            (set.base, set.cap) = (Some(MILLI), Some(MILLI))
        }),
    );
    let harness = Harness::embedded(only::<Scripted>());
    let task = harness
        .settings(|settings| settings.policies = Arc::new(short.unwrap()))
        .submit(script(&["wait 30", "wait 1200"]))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let history = task.history().await;
    assert_eq!(
        delays(&history, 1),
        [30, 1200],
        "the policy alone would wait a millisecond"
    );
    let waits: Vec<_> = history
        .audit
        .iter()
        .filter(|row| row.entry.event == "waits")
        .collect();
    assert_eq!(waits.len(), 1, "from a second on the task sleeps");
    assert_eq!(waits[0].entry.details["delay_ms"], 1200);
    task.assert_invariants().await;
}

const MILLI: Duration = Duration::from_millis(1);

fn override_of(name: &str, set: impl FnOnce(&mut RetryOverride)) -> Overrides {
    let mut change = RetryOverride::default();
    set(&mut change);
    Overrides {
        policies: [(name.to_owned(), change)].into(),
        ..Overrides::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_has_a_limit_of_its_own_and_a_time_out_is_retried() {
    let task = Harness::embedded(only::<Limited>())
        .submit(script(&["hang", "hang"]))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    let attempts = task
        .history()
        .await
        .attempts
        .into_iter()
        .filter(|row| row.step.0 == 2)
        .collect::<Vec<_>>();
    let outcomes: Vec<_> = attempts.iter().map(|row| row.outcome).collect();
    assert_eq!(
        outcomes,
        [
            Some(Outcome::Failed),
            Some(Outcome::Failed),
            Some(Outcome::Succeeded)
        ]
    );
    assert!(
        attempts[1]
            .error
            .as_ref()
            .is_some_and(|error| error.message.contains("its limit of 150ms")),
        "{attempts:?}"
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permanent_error_is_never_retried() {
    let task = Harness::embedded(only::<Limited>())
        .submit(script(&["no"]))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_trail("mark ok, say failed, say waived, mark undone, failed")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_outlives_the_process_counts_waits_and_not_the_undo() {
    let mut site = Harness::embedded(only::<Brief>())
        .settings(|settings| settings.step_timeout = Duration::from_millis(2 * SLOW_UNDO))
        .start()
        .await;
    site.serve(1);
    let tasks = submit(&site, &script(&["busy"]).field("undo_ms", SLOW_UNDO), 1).await;
    let before = site
        .all("waiting for a retry", &tasks, waits_for_a_retry)
        .await
        .remove(0)
        .task;
    site.restart().await;
    assert_eq!(
        site.record(tasks[0]).await.task.deadline_at,
        before.deadline_at
    );
    site.serve(1);
    site.clock.advance("3s");
    until_works(tasks[0]).await;
    site.clock.advance_by(Duration::from_millis(SLOW_UNDO));
    let record = site.all_are(TaskStatus::Failed, &tasks).await.remove(0);
    assert_eq!(
        record
            .task
            .failure
            .as_ref()
            .map(|failure| failure.class.as_str()),
        Some("deadline")
    );
    assert_eq!(
        record.steps[0].attempts.0, 1,
        "it slept until its deadline, and no attempt started after it"
    );
    assert_eq!(
        record.steps[0].undo_attempts.0, 1,
        "an undo that takes longer than the whole task may is let be"
    );
    site.assert_invariants(&tasks).await;
    site.stop().await;
}

/// With one of the policies changed.
pub(crate) fn with(
    name: &str,
    registry: counterstep_steps::Registry,
    set: impl FnOnce(&mut RetryOverride),
) -> Harness {
    let policies = Policies::checked(&registry, override_of(name, set)).expect("they can be");
    Harness::embedded(registry).settings(|settings| settings.policies = Arc::new(policies))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_change_the_retries_of_a_step_by_the_policys_name() {
    let harness = with("QUICK", only::<Errand>(), |set| set.max_retries = Some(0));
    let task = harness
        .fault(Fault::at("pick", FaultKind::FailTransiently).on_attempt(1))
        .submit(Form::new())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    assert_eq!(
        task.record().await.steps[1].attempts.0,
        1,
        "two retries are declared, none is in effect"
    );

    let harness = with("QUICK", only::<Errand>(), |set| set.max_retries = Some(4));
    let mut harness = harness.fault(Fault::at("deliver", FaultKind::FailAfter));
    for attempt in 1..=4 {
        harness = harness.fault(
            Fault::at("pay", FaultKind::FailTransiently)
                .on_attempt(attempt)
                .in_undo(),
        );
    }
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    assert_eq!(
        task.record().await.steps[2].undo_attempts.0,
        5,
        "two retries are declared, four are in effect"
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_change_the_limit_of_an_attempt() {
    let set = Duration::from_millis(50);
    let harness = with("LIMITED", only::<Limited>(), |change| {
        (change.attempt_timeout, change.max_retries) = (Some(set), Some(0));
    });
    let task = harness.submit(script(&["hang"])).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let failure = task.record().await.task.failure.expect("a failure");
    assert_eq!(
        (failure.class.as_str(), failure.message.contains("50ms")),
        ("timed_out", true),
        "{failure:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn exhausted_retries_undo_fail_or_park_as_declared() {
    for (step, status, trail) in [
        (
            "four",
            TaskStatus::Failed,
            "four failed, four undone, three undone, two undone, one undone, failed",
        ),
        ("two", TaskStatus::Failed, "two failed, failed"),
        (
            "three",
            TaskStatus::DeadLettered,
            "three failed, dead_lettered",
        ),
    ] {
        // Of one try: what follows the last one is the same.
        let harness = with("SLOW", only::<Stubborn>(), |set| set.max_retries = Some(0));
        let task = harness
            .fault(Fault::at(step, FaultKind::FailTransiently))
            .submit(Form::new())
            .await;
        assert_eq!(task.run_to_rest().await, status, "{step}");
        assert!(
            task.trail().await.ends_with(trail),
            "{step}: {}",
            task.trail().await
        );
        task.assert_invariants().await;
    }
}
