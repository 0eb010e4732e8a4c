//! What an engine's recorder is told: each change once, by the process that has made it.

use crate::errand::{Errand, only};
use counterstep_contracts::{Direction, Host, Outcome, StepStatus, TaskStatus};
use counterstep_kernel::ports::{Observation, Recorder, SubmissionOutcome};
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_steps::CancelToken;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, TestTask};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Counts observations by a text.
#[derive(Debug, Default)]
struct Counted(Mutex<BTreeMap<String, u32>>);

impl Recorder for Counted {
    fn record(&self, observation: Observation<'_>) {
        let text = match observation {
            Observation::Submission { task_type, outcome } => {
                format!("{task_type} {}", outcome.as_str())
            }
            Observation::Rest {
                status,
                labels,
                after,
                ..
            } => {
                assert!(after > Duration::ZERO && after < Duration::from_secs(600));
                let order = labels.get("order").unwrap_or_default();
                format!("rests {status} {order}")
            }
            Observation::Claim { after, .. } => {
                assert!(after < Duration::from_secs(600), "{after:?}");
                "claimed".to_owned()
            }
            Observation::Attempt {
                step,
                direction,
                outcome,
                ..
            } => format!("{step} {direction} {outcome}"),
            Observation::Undo { .. } => "undo".to_owned(),
            Observation::LeaseLost => "lease lost".to_owned(),
            Observation::Abandoned => "abandoned".to_owned(),
            Observation::Webhook { status } => format!("webhook {}", status.as_str()),
            Observation::Spooled(outcome) => format!("spooled {}", outcome.as_str()),
            Observation::Recovery { .. } => "recovery".to_owned(),
            Observation::FoundByPolling { .. } => "found by polling".to_owned(),
        };
        *self.0.lock().unwrap().entry(text).or_default() += 1;
    }

    fn write(&self, _: &mut String) {}
}

impl Counted {
    fn of(&self, text: &str) -> u32 {
        self.0
            .lock()
            .unwrap()
            .get(text)
            .copied()
            .unwrap_or_default()
    }
}

/// An engine beside that of the task, as another process has one.
fn counting(task: &mut TestTask) -> Arc<Counted> {
    let counted = Arc::new(Counted::default());
    task.engine = task.engine.clone().recorded_by(counted.clone());
    counted
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_and_its_task_are_counted_once_each() {
    let counted = Arc::new(Counted::default());
    let mut site = Harness::embedded(only::<Errand>()).start().await;
    site.engine = site.engine.clone().recorded_by(counted.clone());
    let task = site.submit(Form::new().label("order", "7")).await;
    site.serve(4);
    site.all_are(TaskStatus::Completed, &[task]).await;
    site.stop().await;
    let accepted = format!("Errand {}", SubmissionOutcome::Accepted.as_str());
    assert_eq!(
        (counted.of(&accepted), counted.of("rests completed 7")),
        (1, 1),
        "{counted:?}"
    );
    let attempt = |direction: Direction, outcome: Outcome| format!("pick {direction} {outcome}");
    let picked = attempt(Direction::Forward, Outcome::Succeeded);
    assert_eq!(counted.of(&picked), 1, "{counted:?}");
    assert!(counted.of("claimed") >= 2, "{counted:?}");
    for none in ["undo", "lease lost", "recovery"] {
        assert_eq!(counted.of(none), 0, "{none}: {counted:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_host_and_the_undo_of_its_task_are_counted() {
    let mut task = Harness::embedded(only::<Errand>())
        .crash_at("pick")
        .fail_at("deliver")
        .submit(Form::new())
        .await;
    let counted = counting(&mut task);
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    for (text, count) in [("recovery", 1), ("undo", 1), ("rests failed ", 1)] {
        assert_eq!(counted.of(text), count, "{text}: {counted:?}");
    }
    let undone = format!("pick {} {}", Direction::Undo, Outcome::Succeeded);
    assert_eq!(counted.of(&undone), 1, "{counted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_worker_counts_the_lease_that_it_has_lost() {
    let mut task = Harness::embedded(only::<Errand>())
        .submit(Form::new().field("pick_ms", 1_000))
        .await;
    let token = CancelToken::new();
    turn(&task.engine, Host::Api, task.id, &token).await;
    let other = task.engine.clone();
    let counted = counting(&mut task);
    let (engine, id) = (task.engine.clone(), task.id);
    let mut paused = Box::pin(turn(&engine, Host::Worker, id, &token));
    while task.record().await.steps[1].status != StepStatus::Running {
        let _ = tokio::time::timeout(Duration::from_millis(10), &mut paused)
            .await
            .expect_err("it is still running");
    }
    task.engine = other;
    let works = async {
        eventually("another attempt", || async {
            (task.record().await.steps[1].attempts.0 == 2).then_some(())
        })
        .await;
        task.clock.advance("1s");
    };
    let (status, ()) = futures::join!(task.run_to_rest(), works);
    assert_eq!(status, TaskStatus::Completed);
    assert_eq!(counted.of("lease lost"), 0, "it stands still");
    assert_eq!(paused.await, TurnEnd::Lost);
    assert_eq!(counted.of("lease lost"), 1, "{counted:?}");
    assert_eq!(counted.of("rests completed "), 0, "another one did that");
}
