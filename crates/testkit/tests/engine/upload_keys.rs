//! Uploads with an idempotency key that come to nothing because the database does not answer. The database is a file that
//! another process holds the write lock of.

use crate::cut_off::{Cut, connect, open};
use crate::errand::only;
use crate::hints::{Post, send, under_key};
use counterstep_contracts::FileName;
use counterstep_kernel::client::{SubmitError, UploadSession};
use counterstep_kernel::workers::registration::Part;
use counterstep_kernel::{Engine, EngineSettings, workers::worker_registry};
use counterstep_testkit::TestClock;
use counterstep_testkit::many_tasks::eventually;
use futures::StreamExt;
use std::future::pending;
use std::sync::Arc;
use tempfile::TempDir;

struct Installation {
    folder: TempDir,
    clock: TestClock,
    /// A process that takes requests.
    engine: Engine,
}

impl Installation {
    async fn new() -> Self {
        let (folder, clock) = (tempfile::tempdir().expect("a folder"), TestClock::new());
        let ports = open(&folder, &clock).await;
        let engine = Engine::new(
            ports,
            Arc::new(only::<Post>()),
            EngineSettings::default(),
            "api",
        );
        Self {
            folder,
            clock,
            engine,
        }
    }

    /// Another process that takes requests.
    fn other(&self) -> Engine {
        Engine::new(
            self.engine.ports.clone(),
            self.engine.registry.clone(),
            EngineSettings::default(),
            "api",
        )
    }

    /// A request whose first file is stored before the database goes away.
    async fn comes_to_nothing(&self) -> Cut {
        let mut session = self.begin().await;
        store_file(&mut session).await.expect("it is stored");
        let cut = Cut::of(connect(self.folder.path()));
        let refused = session.submit().await;
        assert!(matches!(refused, Err(SubmitError::Store(_))), "{refused:?}");
        session.abandon("the database is away").await;
        cut
    }

    async fn begin(&self) -> UploadSession {
        let task_type = *self.engine.registry.iter().next().expect("a task type");
        let session = UploadSession::begin(&self.engine, task_type, under_key()).await;
        session.expect("it begins")
    }
}

pub(crate) async fn store_file(session: &mut UploadSession) -> Result<(), SubmitError> {
    let body = futures::stream::iter([Ok("one".into())]).boxed();
    let name = FileName::parse("note.txt").expect("a name");
    session.file("files", name, "text/plain", body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_at_the_same_process_is_accepted_once_the_database_answers() {
    let site = Installation::new().await;
    drop(site.comes_to_nothing().await);
    let again = send(&site.engine, "", &["one"]).await.expect("accepted");
    assert!(!again.replayed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_at_another_process_is_accepted_although_the_first_process_lives() {
    let site = Installation::new().await;
    let engine = site.engine.clone();
    let alive = tokio::spawn(async move {
        let work = Box::pin(pending::<()>());
        worker_registry::keep_refreshed(&engine, Part::default(), work).await;
    });
    eventually("it is registered", || async {
        let workers = site.engine.ports.store.workers().await.expect("an answer");
        (!workers.rows.is_empty()).then_some(())
    })
    .await;
    let cut = site.comes_to_nothing().await;
    let other = site.other();
    drop(cut);
    let began = other.ports.clock.monotonic();
    let again = eventually("a key that is free", || async {
        site.clock.advance("1s");
        send(&other, "", &["one"]).await.ok()
    });
    assert!(!again.await.replayed);
    let took = other.ports.clock.monotonic() - began;
    let expires = EngineSettings::default().upload_timeout * 2;
    assert!(took < expires, "its row has expired, after {took:?}");
    alive.abort();
}
