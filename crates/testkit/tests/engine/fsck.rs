//! What `fsck` finds in rows that agree with each other, and that no engine would have written.

use crate::cut_off::connect;
use crate::errand::{Errand, only};
use crate::scratch::Chain;
use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_kernel::change::transition::{Guard, TaskWrite, Transition};
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::record::{AuditEntry, StepRow, TaskRecord};
use counterstep_macros::distributed_task;
use counterstep_reconciler::audit::{Damage, Finding, Part, Scope};
use counterstep_reconciler::fsck::{Checked, fsck};
use counterstep_steps::error::panic_message;
use counterstep_steps::{
    AwaitSignal, FileName, Registry, StepContext, StepError, StepResult, StoredFile, UndoResult,
};
use counterstep_testkit::{Form, Harness, TestTask};
use diesel::connection::SimpleConnection;
use futures::{FutureExt, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::panic::AssertUnwindSafe;

async fn completed() -> TestTask {
    let task = Harness::embedded(only::<Errand>())
        .submit(Form::new())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task
}

async fn checked(task: &TestTask, registry: &Registry) -> (Checked, Vec<Finding>) {
    let mut found = Vec::new();
    let (store, objects) = (
        &task.engine.ports.store,
        Some(task.engine.ports.objects.as_ref()),
    );
    let checked = fsck(
        store,
        registry,
        objects,
        &Scope::default(),
        &mut |finding| found.push(finding),
    )
    .await;
    (checked.expect("the stores answer"), found)
}

/// Commits a change of a task that nothing has judged; of no event where it has no name.
async fn commit(task: &TestTask, before: &TaskRecord, event: &str, to: TaskStatus) {
    commit_step(task, before, (event, to), None).await;
}

/// The same of a step too, with its row after the change.
async fn commit_step(
    task: &TestTask,
    before: &TaskRecord,
    (event, to): (&str, TaskStatus),
    step: Option<StepRow>,
) {
    let mut row = before.task.clone();
    (row.rev, row.status) = (row.rev.next(), to);
    if !event.is_empty() {
        row.audit_seq = row.audit_seq.next();
    }
    row.change_id = task.engine.new_change_id();
    let entry = AuditEntry {
        seq: row.audit_seq,
        event: event.to_owned(),
        from: Some(before.task.status),
        to,
        step: step.as_ref().map(|step| step.no),
        step_from: step.as_ref().and_then(|step| {
            let row = before.steps.iter().find(|row| row.no == step.no);
            row.map(|row| row.status)
        }),
        step_to: step.as_ref().map(|step| step.status),
        attempt: None,
        epoch: row.epoch,
        actor: "test".to_owned(),
        details: Value::Null,
    };
    let write = TaskWrite::new(row);
    let audit = if event.is_empty() {
        Vec::new()
    } else {
        vec![entry]
    };
    let change = Transition {
        audit,
        steps: Vec::from_iter(step),
        ..Transition::new(write.row.change_id, task.id)
    };
    let change = Transition {
        task: Some(write),
        ..change
    }
    .with_journal(Some(before), "test");
    let guard = Guard::Free {
        rev: before.task.rev,
    };
    task.engine
        .ports
        .store
        .commit(guard, change.clone())
        .await
        .expect("the change is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_the_judge_does_not_allow_is_found_by_its_row() {
    let task = completed().await;
    let (whole, found) = checked(&task, &task.engine.registry).await;
    assert_eq!(
        (whole.verified.tasks, whole.verified.findings, &*found),
        (1, 0, &[] as &[Finding])
    );

    let before = task.record().await;
    commit(&task, &before, "taken_back", TaskStatus::Dispatched).await;
    let (after, found) = checked(&task, &task.engine.registry).await;
    let [finding] = &found[..] else {
        panic!("one finding: {found:?}")
    };
    assert_eq!(
        (finding.damage, finding.rev),
        (Damage::Illegal(Part::State), Some(before.task.rev.next().0))
    );
    assert!(
        finding.says.contains("`taken_back`") && finding.says.contains("completed"),
        "{finding}"
    );
    assert_eq!(
        (after.verified.findings, after.verified.rows),
        (1, whole.verified.rows + 1)
    );

    // An event of no name that a program writes is none that the judge allows.
    commit(
        &task,
        &task.record().await,
        "went_away",
        TaskStatus::Dispatched,
    )
    .await;
    assert_eq!(checked(&task, &task.engine.registry).await.1.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_changes_without_an_event_is_found() {
    let task = completed().await;
    commit(&task, &task.record().await, "", TaskStatus::Failed).await;
    let found = checked(&task, &task.engine.registry).await.1;
    let [finding] = &found[..] else {
        panic!("one finding: {found:?}")
    };
    assert_eq!(finding.damage, Damage::Illegal(Part::State));
    assert!(
        finding
            .says
            .ends_with("it leaves the task failed without an event"),
        "{finding}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_replaced_is_found() {
    let task = completed().await;
    let before = task.record().await;
    let mut step = before.steps[0].clone();
    step.output = Some("another one".into());
    commit_step(&task, &before, ("", TaskStatus::Completed), Some(step)).await;
    let found = checked(&task, &task.engine.registry).await.1;
    let [finding] = &found[..] else {
        panic!("one finding: {found:?}")
    };
    assert_eq!(finding.damage, Damage::Illegal(Part::Output));
    assert!(
        finding.says.ends_with("whose scratch was not lost"),
        "{finding}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_taken_behind_its_reader_is_found() {
    let task = Harness::embedded(only::<Chain>())
        .fault(Fault::at("fourth", FaultKind::FailTransiently).on_attempt(1))
        .submit(Form::new())
        .await;
    task.run_to_wait().await;
    let before = task.record().await;
    commit(&task, &before, "claimed", TaskStatus::Running).await;
    assert_eq!(checked(&task, &task.engine.registry).await.1, []);

    let before = task.record().await;
    let mut second = before.steps[1].clone();
    (second.status, second.output) = (StepStatus::Pending, None);
    let lost = ("step_scratch_lost", TaskStatus::Running);
    commit_step(&task, &before, lost, Some(second)).await;
    let found = checked(&task, &task.engine.registry).await.1;
    let [finding] = &found[..] else {
        panic!("one finding: {found:?}")
    };
    assert_eq!(finding.damage, Damage::Illegal(Part::Output));
    assert!(
        finding.says.ends_with("by which step 3 has completed"),
        "{finding}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_goes_on_between_two_looks_is_no_finding() {
    let task = Harness::embedded(only::<Errand>())
        .submit(Form::new().field("pick_ms", 300))
        .await;
    let runs = async { task.run_to_rest().await };
    let mut looks = 0;
    let look = async {
        loop {
            assert_eq!(checked(&task, &task.engine.registry).await.1, []);
            looks += 1;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        status = runs => assert_eq!(status, TaskStatus::Completed),
        () = look => {}
    }
    assert!(looks > 1, "{looks}");
}

/// Its undo deletes what it has stored, and then fails.
struct Shredding;

#[distributed_task(name = "Shredding", queue = "shredding")]
impl Shredding {
    type Request = Paper;
    type Response = String;

    #[step(1, host = "worker", undo = shred)]
    async fn store(ctx: &StepContext) -> StepResult<StoredFile> {
        let body = futures::stream::once(async { Ok("paper".into()) }).boxed();
        ctx.objects()
            .put(
                "files",
                &FileName::parse("paper").expect("a name"),
                "text/plain",
                body,
            )
            .await
    }

    async fn shred(ctx: &StepContext) -> UndoResult {
        ctx.objects().delete_all_of_step().await?;
        Err(StepError::permanent("it jams"))
    }

    #[step(2, host = "worker", no_undo = "it never has an effect")]
    async fn read(_ctx: &StepContext, _stored: &StoredFile) -> StepResult<u32> {
        Err(StepError::permanent("it cannot be read"))
    }

    fn respond(store: &StoredFile) -> String {
        store.key.clone()
    }
}

#[derive(Serialize, Deserialize)]
struct Paper {}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_a_failed_undo_has_deleted_is_not_missed() {
    let task = Harness::embedded(only::<Shredding>())
        .submit(Form::new())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::CompensationFailed);
    assert_eq!(task.objects().await, []);
    assert_eq!(checked(&task, &task.engine.registry).await.1, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_a_type_that_this_program_does_not_have_are_not_judged() {
    let task = completed().await;
    commit(
        &task,
        &task.record().await,
        "taken_back",
        TaskStatus::Dispatched,
    )
    .await;
    let (checked, found) = checked(&task, &Registry::new()).await;
    assert_eq!(
        (checked.not_judged, checked.verified.tasks, found),
        (1, 1, Vec::new())
    );
}

/// Counted by its customer, and not yet done.
struct Counted;

#[derive(Serialize, Deserialize)]
struct Customer {
    customer: String,
}

#[distributed_task(name = "Counted", queue = "counted", key = "req.customer", at_once = 1)]
impl Counted {
    type Request = Customer;
    type Response = u32;

    #[step(1, host = "worker")]
    fn approval(_req: &Customer) -> AwaitSignal<u32> {
        AwaitSignal::within("1h")
    }

    fn respond(approval: &u32) -> u32 {
        *approval
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_is_gone_or_another_one_is_found() {
    let task = Harness::embedded(only::<Counted>())
        .submit(Form::new().field("customer", "a"))
        .await;
    task.run_to_wait().await;
    let found = async || checked(&task, &task.engine.registry).await.1;
    assert_eq!(found().await, []);
    let folder = task.database();
    let mut database = connect(folder.parent().expect("a folder"));
    for spoil in [
        "UPDATE places SET no = no + 1",
        "UPDATE places SET no = no - 1, key = key || 'b'",
        "DELETE FROM places",
    ] {
        database.batch_execute(spoil).expect("it is executed");
        let found = found().await;
        assert_eq!(found.len(), 1, "{spoil}: {found:?}");
        assert!(
            found[0].says.starts_with("its row in `places` is not"),
            "{spoil}: {}",
            found[0]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_whose_object_is_gone_is_found() {
    let task = Harness::embedded(only::<Keeping>())
        .submit(Form::new())
        .await;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    task.assert_no_orphans().await;
    let objects = task.objects().await;
    let [object] = &objects[..] else {
        panic!("one object: {objects:?}")
    };
    let (attempt, _) = object.key.rsplit_once('/').expect("a folder");
    let attempt = format!("{attempt}/");
    let deleted = task.engine.ports.objects.delete_prefix(&attempt).await;
    assert_eq!(deleted.expect("it is deleted"), 1);
    let missed = AssertUnwindSafe(task.assert_no_orphans())
        .catch_unwind()
        .await
        .expect_err("an object is missing");
    let said = panic_message(missed.as_ref());
    assert!(said.contains("outputs without their object"), "{said}");
}

/// Stores a file.
struct Keeping;

#[distributed_task(name = "Keeping", queue = "shredding")]
impl Keeping {
    type Request = Paper;
    type Response = String;

    #[step(1, host = "worker", undo = shred)]
    async fn store(ctx: &StepContext) -> StepResult<StoredFile> {
        let body = futures::stream::once(async { Ok("paper".into()) }).boxed();
        let name = FileName::parse("paper").expect("a name");
        ctx.objects().put("files", &name, "text/plain", body).await
    }

    async fn shred(ctx: &StepContext) -> UndoResult {
        ctx.objects().delete_all_of_step().await.map(drop)
    }

    fn respond(store: &StoredFile) -> String {
        store.key.clone()
    }
}
