//! Forward: groups, conditions, hosts, retries, deadlines, and what giving up leads to.

use crate::errand::{Done, Errand, Hasty, Stubborn, only};
use counterstep_contracts::{Host, QueueName, Rev, StepStatus, TaskStatus, WorkerMessage};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::turn::{Offer, TurnEnd, turn_for};
use counterstep_macros::distributed_task;
use counterstep_steps::CancelToken;
use counterstep_steps::output_limit::OutputLimit;
use counterstep_steps::{StepContext, StepResult};
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};

fn parsed(response: Option<serde_json::Value>) -> Done {
    serde_json::from_value(response.expect("a response")).expect("the declared response")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_runs_side_by_side_and_a_task_crosses_hosts_both_ways() {
    let task = Harness::embedded(only::<Errand>())
        .submit(Form::new().field("wrapped", true))
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_invariants().await;
    let trail = task.trail().await;
    assert!(
        trail.starts_with("note ok, ") && trail.ends_with("wrap ok, deliver ok, completed"),
        "{trail}"
    );
    let history = task.history().await;
    let starts: Vec<_> = history
        .audit
        .iter()
        .filter(|row| row.entry.event == "step_started")
        .map(|row| row.change_id)
        .collect();
    assert_eq!(
        starts[1], starts[2],
        "both steps of the group start in one change"
    );
    let done = parsed(task.record().await.task.response);
    assert_eq!(
        done,
        Done {
            goods: "apples".into(),
            paid: "3.20".into(),
            paper: Some("around apples".into())
        }
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_condition_says_no_is_skipped_and_its_readers_see_none() {
    let task = Harness::embedded(only::<Errand>())
        .submit(Form::new())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert!(task.trail().await.contains("wrap skipped"));
    assert_eq!(parsed(task.record().await.task.response).paper, None);
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_of_a_group_to_give_up_takes_its_siblings_with_it() {
    let harness = Harness::embedded(only::<Errand>()).fault(Fault::at("pay", FaultKind::FailAfter));
    let task = harness.submit(Form::new().field("pick_ms", 60_000)).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_invariants().await;
    let record = task.record().await;
    let failure = record.task.failure.expect("a failure");
    assert_eq!(
        failure.step.as_deref(),
        Some("pay"),
        "the culprit is named, not the sibling it took along"
    );
    let trail = task.trail().await;
    assert!(
        trail.contains("pay undone") && trail.contains("pick undone"),
        "{trail}"
    );
    assert!(
        trail.ends_with("note undone, failed"),
        "the group is undone before its predecessor: {trail}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_retry_puts_the_task_to_sleep_and_a_short_one_keeps_the_lease() {
    let harness = Harness::embedded(only::<Errand>())
        .fault(Fault::at("pick", FaultKind::FailTransiently).on_attempt(1));
    let task = harness.submit(Form::new().field("busy_times", 1)).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_invariants().await;
    let history = task.history().await;
    let sleeps: Vec<_> = history
        .audit
        .iter()
        .filter(|row| row.entry.to == TaskStatus::Waiting)
        .collect();
    assert_eq!(
        sleeps.len(),
        1,
        "only the long delay of `deliver` is slept through: {}",
        task.trail().await
    );
    let record = task.record().await;
    let retries: Vec<_> = record
        .steps
        .iter()
        .map(|row| (row.name.as_str(), row.retries_used, row.attempts.0))
        .collect();
    assert_eq!(
        retries,
        [
            ("note", 0, 1),
            ("pick", 1, 2),
            ("pay", 0, 1),
            ("wrap", 0, 0),
            ("deliver", 1, 2)
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_the_attempt_and_the_process_lives() {
    let harness = Harness::embedded(only::<Errand>()).fault(Fault::at("pick", FaultKind::Panic));
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    assert_eq!(
        task.record().await.task.failure.expect("a failure").class,
        "panicked"
    );
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_may_fail_the_task_and_leave_what_was_done() {
    let task = Harness::embedded(only::<Stubborn>())
        .fail_at("two")
        .submit(Form::new())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_trail("one ok, two failed, failed").await;
    let record = task.record().await;
    assert!(record.task.residue);
    assert_eq!(record.steps[0].status, StepStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_may_park_the_task_for_a_person() {
    let task = Harness::embedded(only::<Stubborn>())
        .fail_at("three")
        .submit(Form::new())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
    task.assert_trail("one ok, two ok, three failed, dead_lettered")
        .await;
    assert_eq!(
        task.record().await.task.finished_at,
        None,
        "a parked task has not ended"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn past_its_deadline_a_task_is_undone_instead_of_tried_again() {
    // The delay of a retry is longer than what is left: it sleeps no longer than its deadline.
    let harness =
        Harness::embedded(only::<Hasty>()).fault(Fault::at("two", FaultKind::FailTransiently));
    let task = harness.submit(Form::new()).await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    let record = task.record().await;
    assert_eq!(record.task.failure.expect("a failure").class, "deadline");
    assert_eq!(record.steps[1].attempts.0, 1);
    let history = task.history().await;
    let slept = history
        .audit
        .iter()
        .find(|row| row.entry.event == "waits")
        .expect("it slept");
    let millis = slept.entry.details["delay_ms"].as_u64().expect("a number");
    assert!(
        millis <= 4000,
        "the policy's delay is an hour; it slept for {millis}"
    );
    task.assert_trail("one ok, two retries, two undone, one undone, failed")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redelivery_from_before_a_change_of_hosts_is_done_with_and_what_was_never_dispatched_is_not_believed()
 {
    let task = Harness::embedded(only::<Errand>())
        .submit(Form::new())
        .await;
    let submitted = task.record().await.task;
    let message = |rev| WorkerMessage {
        task: task.id,
        tenant: None,
        task_type: "Errand".to_owned(),
        version: submitted.version,
        rev: Rev(rev),
        traceparent: None,
        outputs: serde_json::Map::new(),
    };
    let offer = async |host: Host, queue: &str, rev| {
        let (message, queue) = (message(rev), QueueName(queue.to_owned()));
        turn_for(
            &task.engine,
            host,
            Offer {
                message: &message,
                queue: &queue,
                is_first: true,
            },
            &CancelToken::new(),
        )
        .await
    };
    let never = "its queue is `errands`, and its task's `errands.api`";
    assert_eq!(
        offer(Host::Worker, "errands", 1).await,
        TurnEnd::Contradicted(never.to_owned())
    );
    assert_eq!(offer(Host::Api, "errands.api", 1).await, TurnEnd::GivenBack);
    let handed_over = task.record().await;
    assert_eq!(offer(Host::Api, "errands.api", 1).await, TurnEnd::NotNow);
    assert!(matches!(
        offer(Host::Api, "others.api", 1).await,
        TurnEnd::Contradicted(_)
    ));
    assert!(matches!(
        offer(Host::Api, "errands.api", handed_over.task.rev.0).await,
        TurnEnd::Contradicted(_)
    ));
    assert_eq!(task.record().await.task, handed_over.task);
    assert_eq!(
        offer(Host::Worker, "errands", handed_over.task.rev.0).await,
        TurnEnd::Rests(TaskStatus::Completed)
    );
}

#[derive(Debug, Serialize, Deserialize)]
struct Want {
    bytes: usize,
    times: usize,
}

#[derive(Debug, Serialize, Deserialize)]
struct Pile(String);

struct Hoard;

#[distributed_task(name = "Hoard", queue = "hoard")]
impl Hoard {
    type Request = Want;
    type Response = String;

    #[step(1, host = "worker", no_undo = "it keeps nothing")]
    async fn gather(_ctx: &StepContext, want: &Want) -> StepResult<Pile> {
        Ok(Pile("x".repeat(want.bytes)))
    }

    fn respond(want: &Want, gather: &Pile) -> String {
        gather.0.repeat(want.times)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_or_a_response_that_is_too_large_fails_for_good_and_the_error_says_what_to_do() {
    for (bytes, times, fails_at) in [
        (998, 1, None),
        (999, 1, Some("gather")),
        (600, 2, Some("respond")),
    ] {
        let harness = Harness::embedded(only::<Hoard>())
            .settings(|settings| settings.output_limit = OutputLimit(1000));
        let task = harness
            .submit(Form::new().field("bytes", bytes).field("times", times))
            .await;
        let status = task.run_to_rest().await;
        let record = task.record().await;
        let Some(step) = fails_at else {
            assert_eq!(status, TaskStatus::Completed);
            continue;
        };
        assert_eq!(status, TaskStatus::Failed);
        let failure = record.task.failure.expect("a reason");
        assert_eq!(
            (failure.step.as_deref(), failure.class.as_str()),
            (Some(step), "permanent")
        );
        for hint in [
            "1000 bytes",
            "ctx.objects().put",
            "StoredFile",
            "output_limit",
        ] {
            assert!(failure.message.contains(hint), "{}", failure.message);
        }
        assert_eq!(record.steps[0].output.is_some(), step == "respond");
        task.assert_invariants().await;
    }
}
