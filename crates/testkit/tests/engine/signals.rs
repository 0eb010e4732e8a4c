//! Signal steps: a task waits for a person's answer, with a deadline; the audit names the person.

mod refused;

use crate::cancel::until;
use crate::errand::only;
use counterstep_contracts::{Host, StepStatus, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::client;
use counterstep_kernel::client::SignalRefusal;
use counterstep_kernel::host::{self, HostSettings, Spawn};
use counterstep_kernel::operator;
use counterstep_kernel::operator::Retrial;
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_macros::distributed_task;
use counterstep_steps::{
    AwaitSignal, CancelReason, CancelToken, MaybeSignal, StepContext, StepResult, UndoResult,
};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, LossyQueue, TestTask, form};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ask {
    amount: u64,
    within: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Approval {
    by: String,
    #[serde(default)]
    limit: u64,
}

pub(crate) struct Purchase;

#[distributed_task(name = "Purchase", queue = "purchases", cancellable)]
impl Purchase {
    type Request = Ask;
    type Response = String;

    #[step(1, host = "worker", undo = release)]
    async fn reserve(_ctx: &StepContext) -> StepResult<u32> {
        Ok(1)
    }

    async fn release(_out: Option<u32>) -> UndoResult {
        Ok(())
    }

    #[step(2, host = "worker", when = is_large)]
    fn approval(ask: &Ask) -> AwaitSignal<Approval> {
        AwaitSignal::within(&ask.within)
    }

    fn is_large(ask: &Ask) -> bool {
        ask.amount > 100
    }

    #[step(3, host = "worker")]
    fn remark(_ask: &Ask) -> MaybeSignal<String> {
        AwaitSignal::within("20ms").or_none()
    }

    fn respond(approval: Option<&Approval>, remark: &Option<String>) -> String {
        let by = approval.map_or("no one", |approval| approval.by.as_str());
        format!(
            "approved by {by}, {}",
            remark.as_deref().unwrap_or("without a remark")
        )
    }
}

fn form(amount: u64, within: &str) -> Form {
    Form::new().field("amount", amount).field("within", within)
}

async fn purchase(amount: u64, within: &str) -> TestTask {
    Harness::embedded(only::<Purchase>())
        .submit(form(amount, within))
        .await
}

/// A purchase that waits for its approval.
async fn waiting(within: &str) -> TestTask {
    let task = purchase(500, within).await;
    assert_eq!(
        turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await,
        TurnEnd::GivenBack
    );
    task
}

async fn approve(task: &TestTask, body: Value) -> Result<String, SignalRefusal> {
    client::signal(&task.engine, task.id, "approval", body, "client:anna")
        .await
        .map(|answer| answer.received_at)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_change_that_a_signal_makes_wakes_a_host() {
    let mut task = waiting("1h").await;
    let queue = LossyQueue::default();
    task.engine.ports.queue = Arc::new(queue.clone());
    approve(&task, json!({"by": "anna"}))
        .await
        .expect("accepted");
    let row = task
        .engine
        .ports
        .store
        .load(task.id)
        .await
        .expect("an answer")
        .expect("the task")
        .task;
    let sent: Vec<_> = queue
        .lost()
        .into_iter()
        .map(|(queue, message)| (queue.0, message.task, message.rev))
        .collect();
    assert_eq!(sent, [("purchases".to_owned(), task.id, row.rev)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_sleeps_until_somebody_answers_and_reads_the_answer() {
    let task = waiting("72h").await;
    let asleep = task.record().await;
    assert_eq!(
        (asleep.task.status, asleep.task.waiting),
        (TaskStatus::Waiting, Some(WaitReason::Signal))
    );
    assert_eq!(asleep.task.lease_owner, None);
    assert_eq!(
        turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await,
        TurnEnd::NotNow
    );

    let at = approve(&task, json!({"by": "anna"}))
        .await
        .expect("accepted");
    let woken = task.record().await;
    assert!(woken.due_in().is_zero() && woken.task.status == TaskStatus::Waiting);
    assert_eq!(woken.task.rev.0, asleep.task.rev.0 + 1);
    assert_eq!(
        approve(&task, json!({"limit": 0, "by": "anna"}))
            .await
            .expect("the same body"),
        at
    );
    assert_eq!(
        task.record().await.task.rev,
        woken.task.rev,
        "a repetition changes nothing"
    );
    let refused = approve(&task, json!({"by": "bert"}))
        .await
        .expect_err("another body");
    assert!(matches!(refused, SignalRefusal::Taken), "{refused:?}");

    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail(
        "reserve ok, approval waits, approval signalled, approval ok, remark waits, remark ok, completed",
    )
    .await;
    let record = task.record().await;
    assert_eq!(
        record.task.response,
        Some(json!("approved by anna, without a remark"))
    );
    assert_eq!(
        record.steps[1].output,
        Some(json!({"by": "anna", "limit": 0}))
    );
    let history = task.history().await;
    let heard = history
        .audit
        .iter()
        .find(|row| row.entry.event == "signal_received")
        .expect("an entry");
    assert_eq!(heard.entry.actor, "client:anna");
    assert_eq!(heard.entry.details["body"]["by"], "anna");
    assert_eq!(
        approve(&task, json!({"by": "anna"}))
            .await
            .expect("also once it has completed"),
        at
    );
    let late = client::signal(&task.engine, task.id, "remark", json!("nice"), "client")
        .await
        .expect_err("too late");
    assert!(
        matches!(
            late,
            SignalRefusal::TooLate {
                task: TaskStatus::Completed,
                ..
            }
        ),
        "{late:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_comes_before_its_step_waits_is_kept_for_it() {
    let task = purchase(500, "72h").await;
    approve(&task, json!({"by": "anna"}))
        .await
        .expect("accepted before anything ran");
    client::signal(
        &task.engine,
        task.id,
        "remark",
        json!("soon, please"),
        "client",
    )
    .await
    .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_trail(
        "approval signalled, remark signalled, reserve ok, approval ok, remark ok, completed",
    )
    .await;
    assert_eq!(
        task.record().await.task.response,
        Some(json!("approved by anna, soon, please"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_answers_in_time_the_step_fails_and_says_so() {
    let task = purchase(500, "1100ms").await;
    task.run_to_wait().await;
    task.clock.advance("1100ms");
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    task.assert_trail("reserve ok, approval waits, approval failed, reserve undone, failed")
        .await;
    let failure = task.record().await.task.failure.expect("a failure");
    assert_eq!(
        (failure.class.as_str(), failure.message.as_str()),
        ("permanent", "no signal came within 1100ms")
    );
    let late = approve(&task, json!({"by": "anna"}))
        .await
        .expect_err("too late");
    assert!(
        matches!(
            late,
            SignalRefusal::TooLate {
                step: StepStatus::Failed,
                ..
            }
        ),
        "{late:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_answer_at_once_one_is_heard() {
    let task = waiting("72h").await;
    let answers = (0..8).map(|n| approve(&task, json!({"by": format!("person {n}")})));
    let answers = futures::future::join_all(answers).await;
    assert_eq!(
        answers.iter().filter(|answer| answer.is_ok()).count(),
        1,
        "{answers:?}"
    );
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_invariants().await;
}

async fn until_all(of: &TestTask, tasks: &[TaskId], wanted: TaskStatus) {
    for id in tasks {
        eventually(wanted.as_str(), || async {
            let loaded = of.engine.ports.store.load(*id).await;
            let record = loaded.expect("the store answers").expect("the task");
            (record.task.status == wanted).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_wait_for_an_answer_leave_the_only_slot_to_others() {
    let task = purchase(500, "72h").await;
    let mut asking = vec![task.id];
    for _ in 0..4 {
        asking.push(form::submit(&task.engine, form(500, "72h")).await);
    }
    let (shutdown, mut settings) = (
        CancelToken::new(),
        HostSettings::for_all(&task.engine.registry, Host::Worker, 1),
    );
    settings.poll = Duration::from_millis(50);
    let spawn: Spawn = Arc::new(|work| drop(tokio::spawn(work)));
    let serving = tokio::spawn(host::serve(
        task.engine.clone(),
        settings,
        shutdown.clone(),
        spawn,
    ));
    until(&task, |record| record.task.status == TaskStatus::Waiting).await;
    let small = form::submit(&task.engine, form(5, "72h")).await;
    until_all(&task, &[small], TaskStatus::Completed).await;
    until_all(&task, &asking, TaskStatus::Waiting).await;
    for id in &asking {
        client::signal(
            &task.engine,
            *id,
            "approval",
            json!({"by": "anna"}),
            "client",
        )
        .await
        .expect("accepted");
    }
    until_all(&task, &asking, TaskStatus::Completed).await;
    shutdown.cancel(CancelReason::Shutdown);
    serving.await.expect("the host ends");
}

/// Waits for a person who does not answer.
pub(crate) struct Patient;

#[distributed_task(name = "Patient", queue = "patients")]
impl Patient {
    type Request = Ask;
    type Response = String;

    #[step(1, host = "worker", on_exhausted = "dead_letter")]
    fn approval(ask: &Ask) -> AwaitSignal<Approval> {
        AwaitSignal::within(&ask.within)
    }

    fn respond(approval: &Approval) -> String {
        approval.by.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redriven_wait_begins_anew() {
    let task = Harness::embedded(only::<Patient>())
        .submit(form(1, "4s"))
        .await;
    task.run_to_wait().await;
    task.clock.advance("4s");
    assert_eq!(task.run_to_rest().await, TaskStatus::DeadLettered);
    let first = task.record().await.steps[0].due_at;
    let (actor, note) = ("operator:kim".to_owned(), "anna was away".to_owned());
    operator::retry(
        &task.engine,
        task.id,
        Retrial {
            edit: None,
            bulk: None,
            direction: None,
            actor,
            note,
        },
    )
    .await
    .expect("accepted");
    assert_eq!(
        turn(&task.engine, Host::Worker, task.id, &CancelToken::new()).await,
        TurnEnd::GivenBack
    );
    let asleep = task.record().await;
    assert_eq!(
        (asleep.task.status, asleep.task.waiting),
        (TaskStatus::Waiting, Some(WaitReason::Signal))
    );
    assert!(asleep.steps[0].due_at > first, "with a deadline of its own");
    approve(&task, json!({"by": "anna"}))
        .await
        .expect("accepted");
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_invariants().await;
}
