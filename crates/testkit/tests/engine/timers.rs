//! Timer steps: the task sleeps in the rows, without a lease and without a slot, and goes on when
//! its time has come.

use crate::errand::only;
use counterstep_contracts::{Direction, Host, TaskStatus, WaitReason};
use counterstep_kernel::Engine;
use counterstep_kernel::client;
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_macros::distributed_task;
use counterstep_steps::{CancelToken, Sleep, Slept, StepContext, StepResult, UndoResult};
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Nap {
    /// How long `rest` waits.
    rest: String,
}

pub(crate) struct Napper;

#[distributed_task(name = "Napper", queue = "naps", cancellable)]
impl Napper {
    type Request = Nap;
    type Response = String;

    #[step(1, host = "worker", undo = stand_up)]
    async fn lie_down(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    async fn stand_up(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker")]
    fn rest(req: &Nap) -> Sleep {
        Sleep::for_(&req.rest)
    }

    // Over before it begins.
    #[step(3, host = "worker")]
    fn blink(_rest: &Slept) -> Sleep {
        Sleep::until(SystemTime::UNIX_EPOCH)
    }

    fn respond(rest: &Slept, blink: &Slept) -> String {
        format!("{} {}", rest.due_at, blink.due_at)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_sleeps_in_the_database_and_another_process_goes_on() {
    let task = Harness::embedded(only::<Napper>())
        .submit(Form::new().field("rest", "3s"))
        .await;
    assert_eq!(
        turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await,
        TurnEnd::GivenBack
    );
    let asleep = task.record().await;
    assert_eq!(
        (asleep.task.status, asleep.task.waiting),
        (TaskStatus::Waiting, Some(WaitReason::Timer))
    );
    assert_eq!(asleep.task.lease_owner, None);
    let due = asleep.steps[1].due_at.expect("the step's own time");
    let woken = asleep.task.due_at.expect("a due time");
    assert!(
        woken >= due,
        "the task is woken at {woken:?}, before its step is due, at {due:?}"
    );

    let ports = task.engine.ports.clone();
    let other = Engine::new(
        ports,
        task.engine.registry.clone(),
        (*task.engine.settings).clone(),
        "other",
    );
    assert_eq!(
        turn(&other, Host::Worker, task.id, &CancelToken::new()).await,
        TurnEnd::NotNow
    );
    // What is left, not 3 s once more: a quick machine gets here some microseconds before it. And a millisecond, since times are
    // whole microseconds of two clocks.
    let left = task.record().await.due_in();
    assert!((2..=3).contains(&left.as_secs()), "{left:?}");
    task.clock.advance_by(left + Duration::from_millis(1));
    assert!(task.record().await.due_in().is_zero());
    assert_eq!(
        turn(&other, Host::Worker, task.id, &CancelToken::new()).await,
        TurnEnd::Rests(TaskStatus::Completed)
    );
    task.assert_trail("lie_down ok, rest waits, rest ok, blink ok, completed")
        .await;
    let record = task.record().await;
    let said = record.task.response.expect("a response");
    let due = counterstep_steps::times::rfc3339(due);
    assert_eq!(
        said.as_str(),
        Some(format!("{due} 1970-01-01T00:00:00.000000Z").as_str())
    );
    assert_eq!(record.steps[1].attempts.0, 0, "a wait is no attempt");
    assert!(
        !task
            .history()
            .await
            .attempts
            .iter()
            .any(|row| row.step.0 > 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_below_a_second_is_waited_out_with_the_lease_held() {
    let task = Harness::embedded(only::<Napper>())
        .submit(Form::new().field("rest", "50ms"))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail("lie_down ok, rest waits, rest ok, blink ok, completed")
        .await;
    assert_eq!(task.record().await.task.epoch.0, 1, "one claim");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_wakes_a_sleeper_and_undoes_what_ran_before_it() {
    let task = Harness::embedded(only::<Napper>())
        .submit(Form::new().field("rest", "1h"))
        .await;
    turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await;
    let answer = client::cancel(&task.engine, task.id, "client")
        .await
        .expect("accepted")
        .answer;
    assert_eq!(
        answer.will_undo,
        ["lie_down"],
        "a timer has nothing to undo"
    );
    assert_eq!(task.run_to_rest().await, TaskStatus::Cancelled);
    task.assert_trail("lie_down ok, rest waits, lie_down undone, cancelled")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_says_nothing_sensible_fails_its_step() {
    for (rest, words) in [
        ("soon", "`soon` is no duration"),
        ("40000d", "at most 36500 days"),
    ] {
        let task = Harness::embedded(only::<Napper>())
            .submit(Form::new().field("rest", rest))
            .await;
        assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
        task.assert_trail("lie_down ok, rest failed, lie_down undone, failed")
            .await;
        let failure = task.record().await.task.failure.expect("a failure");
        assert_eq!(failure.step.as_deref(), Some("rest"));
        assert!(failure.message.contains(words), "{failure:?}");
        let undone = task
            .history()
            .await
            .attempts
            .iter()
            .filter(|row| row.direction == Direction::Undo)
            .count();
        assert_eq!(undone, 1);
    }
}
