//! The row that stands for files of a request, written without an answer: the request goes on with another one.

use crate::errand::only;
use crate::hints::{Post, under_key};
use crate::upload_keys::store_file;
use async_trait::async_trait;
use counterstep_adapters::embedded::{self, EmbeddedPaths};
use counterstep_kernel::change::transition::{Guard, ReceiveWrite, Transition};
use counterstep_kernel::client::{SubmitError, UploadSession};
use counterstep_kernel::ports::{CommitError, Committed, Ports, ReceiveOp, Storage, StoreError};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_testkit::TestClock;
use counterstep_testkit::through::{Around, Through};
use futures::StreamExt;
use parking_lot::Mutex;
use std::sync::Arc;
use tempfile::TempDir;

/// What the database makes of the first row of a receive; it does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Written,
    /// Much later.
    Late,
}

#[derive(Debug)]
struct FirstUnanswered {
    fate: Fate,
    sent: Mutex<Option<Vec<Arc<Transition>>>>,
}

#[async_trait]
impl Around for FirstUnanswered {
    async fn commit(
        &self,
        store: &dyn Storage,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        let begins =
            |change: &Arc<Transition>| matches!(change.receive, Some(ReceiveWrite::Begun { .. }));
        if self.sent.lock().is_some() || !changes.iter().any(begins) {
            return store.commit(guard, changes).await;
        }
        *self.sent.lock() = Some(changes.to_vec());
        if self.fate == Fate::Written {
            store.commit(guard, changes).await?;
        }
        Err(StoreError::Unknown("its answer was lost".to_owned()).into())
    }
}

struct Site {
    ports: Ports,
    around: Arc<Through<FirstUnanswered>>,
    engine: Engine,
    clock: TestClock,
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
        let sent = Mutex::default();
        let through = |storage| Through::new(storage, FirstUnanswered { fate, sent });
        let mut cut = ports.clone();
        let (store, around) = cut.store.through(through);
        cut.store = store;
        let registry = Arc::new(only::<Post>());
        Self {
            engine: Engine::new(cut, registry, EngineSettings::default(), "api"),
            ports,
            around,
            clock,
            _folder: folder,
        }
    }

    /// A request whose file is stored.
    async fn session(&self) -> UploadSession {
        let task_type = *self.engine.registry.iter().next().expect("a task type");
        let session = UploadSession::begin(&self.engine, task_type, under_key()).await;
        let mut session = session.expect("it begins");
        store_file(&mut session).await.expect("it is stored");
        session
    }

    /// What its time is over for is gone.
    async fn sweep(&self) {
        let receives = |op| async move { self.ports.store.receives(&op).await.expect("an answer") };
        let overdue = receives(ReceiveOp::Overdue { limit: 10 }).await.rows;
        let tasks: Vec<_> = overdue.iter().map(|row| row.task).collect();
        receives(ReceiveOp::Condemn(tasks.clone())).await;
        for row in &overdue {
            let prefix = format!("t/{}/{}/", row.tenant, row.task);
            let deleted = self.ports.objects.delete_prefix(&prefix).await;
            deleted.expect("an answer");
        }
        receives(ReceiveOp::Swept(tasks)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_written_after_the_sweep_makes_no_task_of_files_that_are_gone() {
    let site = Site::of(Fate::Late).await;
    let mut session = site.session().await;
    site.clock
        .advance_by(EngineSettings::default().upload_timeout * 3);
    site.sweep().await;
    assert_eq!(site.ports.objects.list("").count().await, 0);
    let late = site.around.around.sent.lock().clone().expect("a change");
    let written = site.ports.store.commit_all(&late).await;
    assert!(written.is_ok(), "{written:?}");
    let submitted = session.submit().await;
    let refused = submitted.map(|it| it.answer.task_id);
    assert!(matches!(&refused, Err(SubmitError::TooSlow)), "{refused:?}");
    session.abandon("its files are gone").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_that_an_unanswered_row_has_claimed_is_that_of_its_own_request() {
    for fate in [Fate::Written, Fate::Late] {
        let site = Site::of(fate).await;
        let mut session = site.session().await;
        let late = site.around.around.sent.lock().clone();
        let late = late.expect("a change");
        assert_ne!(session.task_id(), late[0].task_id, "{fate:?}");
        let submitted = session.submit().await.expect("accepted");
        assert_eq!(submitted.answer.task_id, session.task_id(), "{fate:?}");
        if fate == Fate::Late {
            let written = site.ports.store.commit_all(&late).await;
            let is_taken = matches!(written, Err(CommitError::KeyTaken));
            assert!(is_taken, "{written:?}");
        }
        let again = site.session().await.submit().await.expect("repeated");
        assert!(again.replayed, "{fate:?}");
        assert_eq!(again.answer.task_id, session.task_id(), "{fate:?}");
        assert_eq!(site.ports.objects.list("").count().await, 1, "{fate:?}");
    }
}
