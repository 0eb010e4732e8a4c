//! Requests with files whose commit is unknown to the client: what they stored stays exactly where their task is.

use async_trait::async_trait;
use counterstep_adapters::embedded::{self, EmbeddedPaths};
use counterstep_contracts::{Rev, TaskId};
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::client::SubmitError;
use counterstep_kernel::ports::{
    CommitError, Committed, LoadFor, LoadedTask, Ports, Storage, StoreError,
};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_steps::{Registry, StoredFiles, UploadMany, UploadedFile};
use counterstep_testkit::form::try_submit;
use counterstep_testkit::through::{Around, Through};
use counterstep_testkit::{Form, TestClock};
use futures::StreamExt;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

#[derive(Debug, Serialize, Deserialize)]
struct Parcels {
    files: Vec<UploadedFile>,
}

struct Depot;

#[distributed_task(name = "Depot", queue = "depot")]
impl Depot {
    type Request = Parcels;
    type Response = u32;

    #[step(1, host = "api")]
    fn take_in(req: &Parcels) -> UploadMany {
        UploadMany::to("parcels", &req.files)
    }

    fn respond(take_in: &StoredFiles) -> u32 {
        u32::try_from(take_in.len()).unwrap_or(u32::MAX)
    }
}

/// Under the same key each time.
async fn send(engine: &Engine) -> Result<TaskId, SubmitError> {
    let form = Form::to::<Depot>()
        .file("files", "one.txt", "one")
        .file("files", "two.txt", "two");
    try_submit(engine, form.key("key")).await
}

/// What the database makes of submissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Written,
    Lost,
}

/// Answers no submission, however often it is tried, and not the look at its task that follows.
#[derive(Debug)]
struct Unanswered {
    fate: Fate,
    clock: TestClock,
    sent: Mutex<Option<(Guard, Arc<Transition>)>>,
    has_lost: AtomicBool,
}

fn lost() -> StoreError {
    StoreError::Unknown("its answer was lost".to_owned())
}

#[async_trait]
impl Around for Unanswered {
    async fn load(
        &self,
        store: &dyn Storage,
        tasks: &[TaskId],
        purpose: LoadFor,
    ) -> Result<Vec<LoadedTask>, StoreError> {
        match self.has_lost.swap(false, Ordering::Relaxed) {
            true => Err(StoreError::Unavailable("it is away".to_owned())),
            false => store.load(tasks, purpose).await,
        }
    }

    async fn commit(
        &self,
        store: &dyn Storage,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        let is_first = |change: &Transition| {
            let write = change.task.as_ref();
            write.is_some_and(|write| write.row.rev == Rev(1))
        };
        if !changes.iter().any(|change| is_first(change)) {
            return store.commit(guard, changes).await;
        }
        // Longer than it is tried again.
        self.clock.advance("6s");
        self.has_lost.store(true, Ordering::Relaxed);
        *self.sent.lock() = Some((guard, changes[0].clone()));
        if self.fate == Fate::Written {
            let _ = store.commit(guard, changes).await;
        }
        Err(lost().into())
    }
}

struct Site {
    ports: Ports,
    around: Arc<Through<Unanswered>>,
    engine: Engine,
    _folder: TempDir,
}

impl Site {
    async fn of(fate: Fate) -> Self {
        let (folder, clock) = (tempfile::tempdir().expect("a folder"), TestClock::new());
        let paths = EmbeddedPaths {
            database: folder.path().join("counterstep.db"),
            objects: folder.path().join("objects"),
            scratch: folder.path().join("scratch"),
        };
        let ports = embedded::open(paths, clock.embedded()).await;
        let ports = ports.expect("a database");
        let around = Unanswered {
            fate,
            clock,
            sent: Mutex::default(),
            has_lost: AtomicBool::new(false),
        };
        let mut cut = ports.clone();
        let through = |storage| Through::new(storage, around);
        let (store, around) = cut.store.through(through);
        cut.store = store;
        let registry = Arc::new(Registry::new().with::<Depot>());
        Self {
            engine: Engine::new(cut, registry, EngineSettings::default(), "api"),
            ports,
            around,
            _folder: folder,
        }
    }

    /// Its client knows nothing of its task.
    async fn is_unanswered(&self) {
        let sent = send(&self.engine).await;
        assert!(
            matches!(&sent, Err(SubmitError::Store(StoreError::Unknown(_)))),
            "{sent:?}"
        );
    }

    async fn objects(&self) -> usize {
        self.ports.objects.list("").count().await
    }

    /// What the client's repetition is answered by a process whose database answers.
    async fn again(&self) -> TaskId {
        let (ports, registry) = (self.ports.clone(), self.engine.registry.clone());
        let other = Engine::new(ports, registry, EngineSettings::default(), "api");
        send(&other).await.expect("accepted")
    }

    async fn is_there(&self, task: TaskId) -> bool {
        let record = self.ports.store.load(task).await;
        record.expect("an answer").is_some()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_is_there_keeps_its_files_and_a_repetition_is_told_of_it() {
    let site = Site::of(Fate::Written).await;
    site.is_unanswered().await;
    assert_eq!(site.objects().await, 2);
    let written = site.around.around.sent.lock().take().expect("a change");
    assert!(site.is_there(written.1.task_id).await);
    assert_eq!(site.again().await, written.1.task_id);
    assert_eq!(site.objects().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_request_that_made_no_task_no_file_is_left_and_its_key_is_free() {
    let site = Site::of(Fate::Lost).await;
    site.is_unanswered().await;
    assert_eq!(site.objects().await, 0);
    let lost = site.around.around.sent.lock().take().expect("a change");
    assert_ne!(site.again().await, lost.1.task_id);
    assert_eq!(site.objects().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_arrives_after_its_files_are_gone_makes_no_task() {
    let site = Site::of(Fate::Lost).await;
    site.is_unanswered().await;
    let (guard, late) = site.around.around.sent.lock().take().expect("a change");
    let written = site.ports.store.commit(guard, late.clone()).await;
    assert!(
        matches!(written, Err(CommitError::Condemned)),
        "{written:?}"
    );
    assert!(!site.is_there(late.task_id).await);
}
