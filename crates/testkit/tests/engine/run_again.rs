//! A task that has ended runs again as a new one: from the start or from a step, with copies of its files, and
//! nothing that one of the two does is taken back with the other.

use crate::errand::only;
use async_trait::async_trait;
use counterstep_contracts::bulk::{BulkAction, BulkStatus};
use counterstep_contracts::{
    Direction, FileName, Keep, Labels, Retention, Rev, StepStatus, StoredFile, StoredFiles, TaskId,
    TaskStatus, Tenant, UploadedFile,
};
use counterstep_kernel::bulk::{self, BulkSpec};
use counterstep_kernel::client::request_edit::RequestEdit;
use counterstep_kernel::client::{AgainError, CannotKeep, RunAgain, SubmitError, run_again};
use counterstep_kernel::dead_letters::Selection;
use counterstep_kernel::engine::faults::{Fault, FaultKind};
use counterstep_kernel::operator::{self, undo_plan};
use counterstep_kernel::ports::{
    ByteStream, FailureFilter, ObjectError, ObjectInfo, Objects, TaskQuery,
};
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_reconciler::fsck::{fsck, referenced_keys};
use counterstep_reconciler::orphans::{self, OrphanSettings};
use counterstep_reconciler::{RetentionSettings, audit::Scope, retention};
use counterstep_steps::{
    CancelToken, State, StepContext, StepError, StepResult, UndoResult, UploadMany,
};
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness, TestTask};
use futures::StreamExt;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

/// What the steps have done, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, what: &str) {
        self.0.lock().expect("a list").push(what.to_owned());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("a list"))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Papers {
    files: Vec<UploadedFile>,
    title: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Bound {
    pages: usize,
    cover: StoredFile,
}

#[derive(Debug, Serialize, Deserialize)]
struct Posted(u32);

struct Publish;

#[distributed_task(
    name = "Publish",
    queue = "press",
    cancellable,
    label(title = "req.title")
)]
impl Publish {
    type Request = Papers;
    type Response = Bound;

    #[step(1, host = "api")]
    fn upload(req: &Papers) -> UploadMany {
        UploadMany::to("incoming-files", &req.files)
    }

    #[step(2, host = "worker", undo = unbind)]
    async fn bind(
        ctx: &StepContext,
        upload: &StoredFiles,
        seen: &State<Seen>,
    ) -> StepResult<Bound> {
        seen.note("bind");
        let body = futures::stream::once(async { Ok("a cover".into()) }).boxed();
        let name = FileName::parse("cover").expect("a name");
        let cover = ctx
            .objects()
            .put("covers", &name, "text/plain", body)
            .await?;
        Ok(Bound {
            pages: upload.len(),
            cover,
        })
    }

    async fn unbind(ctx: &StepContext, seen: &State<Seen>) -> UndoResult {
        seen.note("unbind");
        ctx.objects().delete_all_of_step().await.map(drop)
    }

    #[step(3, host = "worker", undo = retract, on_exhausted = "fail")]
    async fn post(req: &Papers, _bound: &Bound, seen: &State<Seen>) -> StepResult<Posted> {
        seen.note("post");
        if req.title == "refused" {
            return Err(StepError::permanent("no printer takes this"));
        }
        Ok(Posted(3))
    }

    async fn retract(seen: &State<Seen>) -> UndoResult {
        seen.note("retract");
        Ok(())
    }

    #[step(4, host = "worker", no_undo = "a letter")]
    async fn tell(_posted: &Posted, seen: &State<Seen>) -> StepResult<()> {
        seen.note("tell");
        Ok(())
    }

    fn respond(bind: &Bound) -> Bound {
        Bound {
            pages: bind.pages,
            cover: bind.cover.clone(),
        }
    }
}

fn papers(title: &str) -> Form {
    let form = Form::new().field("title", title).label("client", "7");
    form.file("files", "a.txt", "page one")
        .file("files", "b.txt", "page two")
}

async fn ended(seen: &Seen, title: &str, status: TaskStatus) -> TestTask {
    let harness = Harness::embedded(only::<Publish>()).provide(seen.clone());
    let task = harness.submit(papers(title)).await;
    assert_eq!(task.run_to_rest().await, status);
    task
}

fn order(from: Option<&str>) -> RunAgain {
    RunAgain {
        from: from.map(str::to_owned),
        edit: None,
        actor: "operator:kim".to_owned(),
        note: "the press is repaired".to_owned(),
        key: None,
        traceparent: None,
        bulk: None,
    }
}

async fn again(task: &TestTask, order: RunAgain) -> TaskId {
    let submitted = run_again(&task.engine, task.id, order).await;
    submitted.expect("accepted").answer.task_id
}

async fn record(engine: &Engine, task: TaskId) -> TaskRecord {
    let found = engine.ports.store.load(task).await;
    found.expect("an answer").expect("a task")
}

async fn keys(engine: &Engine) -> BTreeSet<String> {
    let all = engine.ports.objects.list("").map_ok(|object| object.key);
    all.try_collect().await.expect("the objects are listed")
}

/// Past the time of all attempts, after a sweep.
async fn swept_keys(task: &TestTask) -> BTreeSet<String> {
    task.clock.advance("1d");
    for _ in 0..2 {
        let plan = orphans::plan(&task.engine, 1000).await.expect("a plan");
        let settings = OrphanSettings::default();
        let shutdown = CancelToken::new();
        let sweep = orphans::run(&task.engine, &settings, plan, &shutdown);
        sweep.await.expect("a sweep");
    }
    keys(&task.engine).await
}

/// All tasks and all objects are as fsck wants them.
async fn assert_sound(engine: &Engine) {
    let mut found = Vec::new();
    let objects = &*engine.ports.objects;
    let store = &engine.ports.store;
    let scope = Scope::default();
    let mut note = |finding| found.push(format!("{finding}"));
    let checked = fsck(store, &engine.registry, Some(objects), &scope, &mut note).await;
    checked.expect("the stores answer");
    assert!(found.is_empty(), "{found:?}");
}

/// The same test task, with another id.
fn follow(mut task: TestTask, id: TaskId) -> TestTask {
    task.id = id;
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_again_from_the_start_with_copies_of_its_files() {
    let seen = Seen::default();
    let task = ended(&seen, "news", TaskStatus::Completed).await;
    let before = task.record().await;
    let first = keys(&task.engine).await;
    assert_eq!(seen.take(), ["bind", "post", "tell"]);
    let new = again(&task, order(None)).await;
    let row = record(&task.engine, new).await.task;
    assert_eq!(row.labels.predecessor(), Some((task.id, None)));
    assert_eq!(row.labels.get("client"), Some("7"));
    assert_eq!(row.labels.get("title"), Some("news"));
    assert_eq!(record(&task.engine, task.id).await.task, before.task);
    let task = follow(task, new);
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(seen.take(), ["bind", "post", "tell"]);
    let copies = referenced_keys(&task.record().await);
    assert!(
        copies.is_disjoint(&first) && copies.len() == 3,
        "{copies:?}"
    );
    let history = task.history().await;
    let events: Vec<_> = history.audit[..2]
        .iter()
        .map(|row| &*row.entry.event)
        .collect();
    assert_eq!(events, ["submitted", "operator_ran_again"]);
    let entry = &history.audit[1].entry;
    assert_eq!(entry.actor, "operator:kim");
    assert_eq!(entry.details["note"], "the press is repaired");
    assert_eq!(entry.details["predecessor"], json!(before.task.id));
    assert_eq!(swept_keys(&task).await, &first | &copies);
    task.assert_invariants().await;
    assert_sound(&task.engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_again_from_a_step_and_what_it_keeps_outlives_the_old_task() {
    let seen = Seen::default();
    let task = ended(&seen, "news", TaskStatus::Completed).await;
    let (old, first) = (task.id, keys(&task.engine).await);
    let response = task.record().await.task.response;
    seen.take();
    let new = again(&task, order(Some("post"))).await;
    let task = follow(task, new);
    let record = task.record().await;
    assert_eq!(record.task.labels.predecessor(), Some((old, Some("post"))));
    let standing: Vec<_> = record
        .steps
        .iter()
        .map(|row| (row.status, row.kept))
        .collect();
    let (kept, open) = ((StepStatus::Completed, true), (StepStatus::Pending, false));
    assert_eq!(standing, [kept, kept, open, open]);
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(seen.take(), ["post", "tell"]);
    let record = task.record().await;
    let copies = referenced_keys(&record);
    assert!(
        copies.is_disjoint(&first) && copies.len() == 3,
        "{copies:?}"
    );
    assert_ne!(
        record.task.response, response,
        "it names the copy of the cover"
    );
    assert_sound(&task.engine).await;

    // Retention deletes the old task with all that it has stored.
    let soon = Retention {
        completed: Some(Keep::ThenDelete(Duration::from_secs(3600))),
        ..Retention::default()
    };
    let settings = RetentionSettings {
        types: BTreeMap::from([("Publish".to_owned(), soon)]),
        ..RetentionSettings::default()
    };
    task.clock.advance("2h");
    let plan = retention::plan(&task.engine, &settings, 1)
        .await
        .expect("a plan");
    let purged = retention::run(&task.engine, &settings, plan, &CancelToken::new()).await;
    assert_eq!(purged.expect("a purge").deleted, 1);
    let gone = task.engine.ports.store.load(old).await.expect("an answer");
    assert!(gone.is_none());
    assert_eq!(swept_keys(&task).await, copies);
    assert_sound(&task.engine).await;
    task.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_kept_step_did_is_not_undone_with_the_new_task() {
    let seen = Seen::default();
    let task = ended(&seen, "news", TaskStatus::Completed).await;
    let (old, first) = (task.id, keys(&task.engine).await);
    seen.take();
    let new = again(&task, order(Some("post"))).await;
    let engine = failing_at(&task.engine, "tell");
    let mut task = follow(task, new);
    task.engine = engine;
    assert_eq!(task.run_to_rest().await, TaskStatus::Failed);
    assert_eq!(seen.take(), ["post", "tell", "retract"]);
    let record = task.record().await;
    assert!(!record.task.residue, "what it did itself is undone");
    let known = task
        .engine
        .registry
        .of(&*record.task)
        .expect("a known type");
    let plan = undo_plan(&known, &record);
    let kept = plan
        .not_undone
        .iter()
        .filter(|step| step.kind == counterstep_contracts::operator::NotUndoneKind::Kept);
    assert_eq!(kept.count(), 2);
    // The copies stay with it: it can run again from the same step.
    let copies = referenced_keys(&record);
    assert_eq!(swept_keys(&task).await, &first | &copies);
    task.assert_invariants().await;
    assert_sound(&task.engine).await;
    let third = again(&task, order(Some("post"))).await;
    let row = self::record(&task.engine, third).await.task;
    assert_eq!(row.labels.predecessor(), Some((new, Some("post"))));
    let healthy = with_faults(&task.engine, Vec::new());
    let mut task = follow(task, third);
    task.engine = healthy;
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(
        self::record(&task.engine, old).await.task.status,
        TaskStatus::Completed
    );
    assert_sound(&task.engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_before_its_first_own_step_ends_it_at_once() {
    let seen = Seen::default();
    let task = ended(&seen, "news", TaskStatus::Completed).await;
    seen.take();
    let new = again(&task, order(Some("post"))).await;
    counterstep_kernel::client::cancel(&task.engine, new, "client")
        .await
        .expect("accepted");
    let task = follow(task, new);
    assert_eq!(task.record().await.task.status, TaskStatus::Cancelled);
    assert_eq!(seen.take(), [""; 0]);
    task.assert_invariants().await;
    assert_sound(&task.engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_failed_with_its_effects_runs_again_with_another_request() {
    let seen = Seen::default();
    let task = ended(&seen, "refused", TaskStatus::Failed).await;
    assert!(task.record().await.task.residue);
    seen.take();
    let edited = RunAgain {
        edit: Some(RequestEdit::Patch(json!({"title": "welcome"}))),
        ..order(Some("post"))
    };
    let new = again(&task, edited).await;
    let task = follow(task, new);
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_eq!(seen.take(), ["post", "tell"]);
    let row = task.record().await.task;
    assert_eq!(
        (&row.request["title"], row.labels.get("title")),
        (&json!("welcome"), Some("welcome"))
    );
    let history = task.history().await;
    assert_eq!(history.audit[1].entry.details["request_changed"], true);
    assert_sound(&task.engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_is_the_same_new_task() {
    let task = ended(&Seen::default(), "news", TaskStatus::Completed).await;
    let keyed = |from: Option<&str>| RunAgain {
        key: Some("once".to_owned()),
        ..order(from)
    };
    let first = again(&task, keyed(Some("post"))).await;
    let there = keys(&task.engine).await;
    let second = run_again(&task.engine, task.id, keyed(Some("post"))).await;
    let second = second.expect("a repetition");
    assert_eq!((second.answer.task_id, second.replayed), (first, true));
    assert_eq!(keys(&task.engine).await, there, "nothing is copied again");
    let other = run_again(&task.engine, task.id, keyed(None)).await;
    assert!(
        matches!(other, Err(AgainError::Submit(SubmitError::KeyMismatch))),
        "{other:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_again_says_why() {
    let seen = Seen::default();
    let task = ended(&seen, "news", TaskStatus::Completed).await;
    let engine = &task.engine;
    let refused = run_again(engine, task.id, order(Some("bake"))).await;
    assert!(
        matches!(refused, Err(AgainError::Kept(CannotKeep::NoSuchStep(_)))),
        "{refused:?}"
    );
    let stolen = RunAgain {
        edit: Some(RequestEdit::Patch(json!({"files": []}))),
        ..order(None)
    };
    let refused = run_again(engine, task.id, stolen).await;
    assert!(matches!(refused, Err(AgainError::Edit(_))), "{refused:?}");
    // Before it has ended, and while it is parked.
    let running = again(&task, order(None)).await;
    let refused = run_again(engine, running, order(None)).await;
    assert!(
        matches!(refused, Err(AgainError::NotEnded(_))),
        "{refused:?}"
    );
    // Cancelled before its second step: the first one was undone, and its files are gone.
    counterstep_kernel::client::cancel(engine, running, "client")
        .await
        .expect("accepted");
    let task = follow(task, running);
    assert_eq!(task.run_to_rest().await, TaskStatus::Cancelled);
    let refused = run_again(&task.engine, running, order(Some("bind"))).await;
    assert!(
        matches!(
            refused,
            Err(AgainError::Kept(CannotKeep::Undone { step: "upload", .. }))
        ),
        "{refused:?}"
    );
    let refused = run_again(&task.engine, running, order(Some("post"))).await;
    assert!(matches!(refused, Err(AgainError::Kept(_))), "{refused:?}");
    let there = keys(&task.engine).await;
    let refused = run_again(&task.engine, running, order(None)).await;
    assert!(
        matches!(refused, Err(AgainError::FilesGone { .. })),
        "{refused:?}"
    );
    assert_eq!(keys(&task.engine).await, there, "nothing is left behind");
    assert_sound(&task.engine).await;
}

fn with_faults(engine: &Engine, faults: Vec<Fault>) -> Engine {
    let settings = EngineSettings {
        faults,
        ..(*engine.settings).clone()
    };
    Engine::new(
        engine.ports.clone(),
        engine.registry.clone(),
        settings,
        "other",
    )
}

fn failing_at(engine: &Engine, step: &str) -> Engine {
    with_faults(engine, vec![Fault::at(step, FaultKind::FailAfter)])
}

/// Whatever becomes of its own steps, the task that it runs again and the steps that it keeps are as before.
#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_its_own_steps_leaves_the_old_task_as_it_was() {
    let seen = Seen::default();
    let mut task = ended(&seen, "news", TaskStatus::Completed).await;
    let (old, sound, before) = (task.id, task.engine.clone(), task.record().await);
    let kinds = [
        FaultKind::FailBefore,
        FaultKind::FailHalfWay,
        FaultKind::FailAfter,
        FaultKind::FailTransiently,
        FaultKind::Panic,
    ];
    for step in ["post", "tell"] {
        for kind in kinds {
            for in_undo in [false, true] {
                let mut fault = Fault::at(step, kind).on_attempt(1);
                let mut faults = vec![Fault::at("tell", FaultKind::FailBefore)];
                if in_undo {
                    fault = fault.in_undo();
                } else {
                    faults.clear();
                }
                faults.push(fault.clone());
                seen.take();
                task.id = old;
                task.engine = sound.clone();
                let id = again(&task, order(Some("post"))).await;
                task.id = id;
                task.engine = with_faults(&sound, faults);
                let mut status = task.run_to_rest().await;
                while status == TaskStatus::CompensationFailed {
                    let retrial = operator::Retrial {
                        direction: Some(Direction::Undo),
                        edit: None,
                        actor: "operator:kim".to_owned(),
                        note: "again".to_owned(),
                        bulk: None,
                    };
                    operator::retry(&task.engine, id, retrial)
                        .await
                        .expect("accepted");
                    status = task.run_to_rest().await;
                }
                let what = format!("{step} {kind:?} in_undo {in_undo}: {status}");
                assert!(
                    matches!(status, TaskStatus::Completed | TaskStatus::Failed),
                    "{what}"
                );
                let did = seen.take();
                assert!(!did.iter().any(|it| it.contains("bind")), "{what}: {did:?}");
                task.assert_invariants().await;
                assert_eq!(record(&sound, old).await.task, before.task, "{what}");
            }
        }
    }
    assert_sound(&sound).await;
    let there = swept_keys(&task).await;
    assert!(referenced_keys(&before).is_subset(&there));
    assert_sound(&sound).await;
}

/// An object store whose n-th put fails, or never ends.
#[derive(Debug)]
struct Stops {
    inner: Arc<dyn Objects>,
    after: AtomicUsize,
    hangs: bool,
    /// A copy hangs, and nothing is written any more on any thread.
    hung: Arc<AtomicBool>,
}

#[async_trait]
impl Objects for Stops {
    async fn put(&self, bucket: &str, key: &str, body: ByteStream) -> Result<u64, ObjectError> {
        let left = self.after.fetch_sub(1, Ordering::SeqCst);
        if left == 0 && self.hangs {
            let half = body.map_ok(|bytes| bytes.slice(..1)).take(1);
            let hung = self.hung.clone();
            let never = half.chain(futures::stream::poll_fn(move |_| {
                hung.store(true, Ordering::SeqCst);
                Poll::Pending
            }));
            return self.inner.put(bucket, key, never.boxed()).await;
        }
        if left == 0 {
            return Err(ObjectError::Unavailable("planted".to_owned()));
        }
        self.inner.put(bucket, key, body).await
    }

    async fn get(&self, bucket: &str, key: &str) -> Result<ByteStream, ObjectError> {
        self.inner.get(bucket, key).await
    }

    async fn delete_prefix(&self, prefix: &str) -> Result<u64, ObjectError> {
        self.inner.delete_prefix(prefix).await
    }

    fn list(&self, prefix: &str) -> BoxStream<'static, Result<ObjectInfo, ObjectError>> {
        self.inner.list(prefix)
    }
}

fn stopping(engine: &Engine, after: usize, hangs: bool) -> (Engine, Arc<AtomicBool>) {
    let mut ports = engine.ports.clone();
    let hung = Arc::new(AtomicBool::new(false));
    ports.objects = Arc::new(Stops {
        inner: ports.objects,
        after: AtomicUsize::new(after),
        hangs,
        hung: hung.clone(),
    });
    let settings = (*engine.settings).clone();
    let engine = Engine::new(ports, engine.registry.clone(), settings, "doomed");
    (engine, hung)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_breaks_off_leaves_nothing_and_the_key_free() {
    let task = ended(&Seen::default(), "news", TaskStatus::Completed).await;
    let before = keys(&task.engine).await;
    let keyed = || RunAgain {
        key: Some("once".to_owned()),
        ..order(Some("post"))
    };
    for after in 0..3 {
        let (engine, _) = stopping(&task.engine, after, false);
        let refused = run_again(&engine, task.id, keyed()).await;
        assert!(
            matches!(refused, Err(AgainError::Submit(SubmitError::Objects(_)))),
            "{refused:?}"
        );
        assert_eq!(keys(&task.engine).await, before, "copy {after}");
    }
    let new = again(&task, keyed()).await;
    let task = follow(task, new);
    assert_eq!(task.run_to_rest().await, TaskStatus::Completed);
    assert_sound(&task.engine).await;
}

fn spec(action: BulkAction, status: TaskStatus) -> BulkSpec {
    BulkSpec {
        action,
        settled: None,
        patch: None,
        from: Some("post".to_owned()).filter(|_| action == BulkAction::RunAgain),
        selection: Selection {
            tenant: Tenant::default(),
            task_type: None,
            statuses: vec![status],
            labels: Labels::new(),
            failure: FailureFilter::default(),
            group: None,
            since: None,
            until: None,
        },
        pace: None,
        note: "the press is repaired".to_owned(),
        actor: "operator:kim".to_owned(),
    }
}

#[tokio::test]
async fn a_preview_says_which_tasks_would_not_run_again_and_why() {
    let completed = ended(&Seen::default(), "news", TaskStatus::Completed).await;
    let cancelled = again(&completed, order(None)).await;
    counterstep_kernel::client::cancel(&completed.engine, cancelled, "client")
        .await
        .expect("accepted");
    // Its upload is undone, and its files are gone.
    let task = follow(completed, cancelled);
    assert_eq!(task.run_to_rest().await, TaskStatus::Cancelled);
    let engine = &task.engine;
    let from_start = BulkSpec {
        from: None,
        ..spec(BulkAction::RunAgain, TaskStatus::Cancelled)
    };
    let keys_before = keys(engine).await;
    let preview = async |spec: &BulkSpec| {
        let found = bulk::preview(engine, spec).await.expect("a preview");
        assert_eq!((found.count, found.undo), (1, None));
        let refused = found.refused.expect("what would be refused");
        assert_eq!(refused.tasks, 1);
        let reasons = refused.reasons.into_iter();
        reasons.map(|it| (it.tasks, it.reason)).collect::<Vec<_>>()
    };
    let gone = "a file of the task cannot be copied: it was deleted, with an undo or by retention";
    assert_eq!(preview(&from_start).await, [(1, gone.to_owned())]);
    let undone = "step `upload` is compensated: what it did is not there any more";
    let behind = spec(BulkAction::RunAgain, TaskStatus::Cancelled);
    assert_eq!(preview(&behind).await, [(1, undone.to_owned())]);
    // What the preview says is what the operation meets.
    let started = bulk::start(engine, from_start).await.expect("started");
    let serving = tokio::spawn(bulk::serve(engine.clone(), CancelToken::new()));
    let done = eventually("the operation is done", || async {
        let shown = bulk::show(&engine.ports.store, &Tenant::default(), &started.id).await;
        Some(shown.expect("it is there")).filter(|it| it.status == BulkStatus::Done)
    })
    .await;
    serving.abort();
    assert_eq!((done.done, done.failed), (0, 1));
    assert_eq!(keys(engine).await, keys_before);

    let completed = ended(&Seen::default(), "news", TaskStatus::Completed).await;
    let spec = spec(BulkAction::RunAgain, TaskStatus::Completed);
    let found = bulk::preview(&completed.engine, &spec).await;
    let refused = found.expect("a preview").refused.expect("a look");
    assert_eq!((refused.tasks, refused.reasons), (1, Vec::new()));
}

/// The copies of one operation hang, and an operation that comes meanwhile is executed beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_operation_whose_copies_take_long_holds_up_no_other() {
    let task = ended(&Seen::default(), "news", TaskStatus::Completed).await;
    let mut ports = task.engine.ports.clone();
    let copies = Arc::new(Stops {
        inner: ports.objects,
        after: AtomicUsize::new(0),
        hangs: true,
        hung: Arc::default(),
    });
    ports.objects = copies.clone();
    let settings = (*task.engine.settings).clone();
    let engine = Engine::new(ports, task.engine.registry.clone(), settings, "slow");
    let slow = spec(BulkAction::RunAgain, TaskStatus::Completed);
    let slow = bulk::start(&engine, slow).await.expect("it is started");
    let serving = tokio::spawn(bulk::serve(engine.clone(), CancelToken::new()));
    let store = &engine.ports.store;
    let status = async |id: &str| {
        let shown = bulk::show(store, &Tenant::default(), id).await;
        shown.expect("it is there").status
    };
    eventually("its first copy", || async {
        (copies.after.load(Ordering::SeqCst) != 0).then_some(())
    })
    .await;
    let other = spec(BulkAction::Cancel, TaskStatus::Waiting);
    let other = bulk::start(&engine, other).await.expect("it is started");
    eventually("the other one is done", || async {
        (status(&other.id).await == BulkStatus::Done).then_some(())
    })
    .await;
    assert_eq!(status(&slow.id).await, BulkStatus::Running);
    serving.abort();
}

/// The process is killed in the middle of a copy, or before its commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_while_it_copies_leaves_a_receive_that_is_swept() {
    let task = ended(&Seen::default(), "news", TaskStatus::Completed).await;
    let before = keys(&task.engine).await;
    for after in 0..3 {
        let (engine, hung) = stopping(&task.engine, after, true);
        let id = task.id;
        let running = tokio::spawn(async move {
            let _ = run_again(&engine, id, order(Some("post"))).await;
        });
        // What a thread writes goes on although its future is dropped, and could come after the sweep.
        eventually("the copies before", || async {
            hung.load(Ordering::SeqCst).then_some(())
        })
        .await;
        assert!(keys(&task.engine).await.len() >= before.len() + after);
        running.abort();
        let _ = running.await;
    }
    assert_eq!(swept_keys(&task).await, before);
    let all = TaskQuery {
        limit: 10,
        ..TaskQuery::default()
    };
    let found = task.engine.ports.store.list(&all).await;
    let lines = found.expect("a list").lines;
    assert_eq!(lines.len(), 1, "no half of a task is there");
    assert_eq!(lines[0].rev, task.record().await.task.rev);
    assert_ne!(lines[0].rev, Rev(0));
    assert_sound(&task.engine).await;
}
