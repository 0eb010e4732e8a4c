//! Turns under a calendar that is set forward while a step runs, or of a machine that was suspended meanwhile: the deadline is
//! judged by the database's time.

use crate::errand::only;
use counterstep_contracts::{Attempt, TaskStatus};
use counterstep_kernel::ports::Clock;
use counterstep_macros::distributed_task;
use counterstep_steps::{StepContext, StepResult, UndoResult};
use counterstep_testkit::clock::{until_works, work_for};
use counterstep_testkit::{Form, Harness, TestClock, TestTask};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Cargo {}

/// Its first step takes a second.
struct Voyage;

#[distributed_task(name = "Voyage", queue = "voyages", timeout = "1h")]
impl Voyage {
    type Request = Cargo;
    type Response = i32;

    #[step(1, host = "worker", undo = unload)]
    async fn load(ctx: &StepContext) -> StepResult<i32> {
        work_for(ctx.task_id(), Duration::from_secs(1)).await;
        Ok(ctx.attempt().0)
    }

    async fn unload() -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", no_undo = "a voyage is over when it is over")]
    async fn sail(load: &i32) -> StepResult<i32> {
        SAILED.store(true, Ordering::SeqCst);
        Ok(*load)
    }

    fn respond(sail: &i32) -> i32 {
        *sail
    }
}

/// A voyage of these tests has begun to sail.
static SAILED: AtomicBool = AtomicBool::new(false);

async fn submitted() -> TestTask {
    let harness = Harness::embedded(only::<Voyage>())
        .settings(|settings| settings.step_timeout = Duration::from_secs(600));
    harness.submit(Form::new()).await
}

/// Runs the task, whose calendar is set forward beyond its deadline while its first step works.
async fn run_over_night(task: &TestTask) {
    let night = async {
        until_works(task.id).await;
        task.clock.set_calendar_forward("8h");
        task.clock.advance("1s");
    };
    let (status, ()) = futures::join!(task.run_to_rest(), night);
    assert_eq!(status, TaskStatus::Failed, "{}", task.trail().await);
    let failure = task.record().await.task.failure.expect("a failure");
    assert_eq!(failure.class, "deadline");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_step_starts_beyond_a_deadline_that_a_suspend_has_passed() {
    let task = submitted().await;
    run_over_night(&task).await;
    task.assert_trail("load ok, load undone, failed").await;
}

/// A host whose own calendar does not show that the database's was set.
#[derive(Debug)]
struct Unmoved(TestClock);

impl Clock for Unmoved {
    fn monotonic(&self) -> Duration {
        Clock::monotonic(&self.0)
    }

    fn unix_millis(&self) -> u64 {
        u64::try_from(self.monotonic().as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(duration)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_the_database_has_written_after_the_deadline_does_not_begin() {
    let mut task = submitted().await;
    task.engine.ports.clock = Arc::new(Unmoved(task.clock.clone()));
    run_over_night(&task).await;
    assert!(!SAILED.load(Ordering::SeqCst));
    let expected = "load ok, sail in doubt, sail waived, load undone, failed";
    task.assert_trail(expected).await;
    assert_eq!(task.record().await.steps[1].attempts, Attempt(1));
}
