//! The row that stands for files of a request, written without an answer: the request goes on with another one.

use crate::errand::only;
use crate::hints::{Post, send, under_key};
use crate::upload_keys::store_file;
use async_trait::async_trait;
use counterstep_adapters::embedded::{self, EmbeddedPaths};
use counterstep_contracts::{Rev, TaskId};
use counterstep_kernel::change::transition::{Guard, IdempotencyWrite, ReceiveWrite, Transition};
use counterstep_kernel::client::{SubmitError, UploadSession};
use counterstep_kernel::ports::{
    CommitError, Committed, Disabled, DocumentWrite, DocumentsPut, Ports, ReceiveOp, Storage,
    StoreError, TypeRow,
};
use counterstep_kernel::workers::registration::Part;
use counterstep_kernel::workers::worker_registry::keep_refreshed;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_testkit::TestClock;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::through::{Around, Through};
use futures::StreamExt;
use futures::future::{Either, select};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use tempfile::TempDir;

/// What the database makes of a write that it does not confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Its answer is lost.
    Written,
    /// Its answer is lost, and it is written much later.
    Late,
    /// It is refused: the database is away.
    Away,
}

impl Fate {
    fn error(self) -> StoreError {
        let text = "planted".to_owned();
        match self {
            Self::Written | Self::Late => StoreError::Unknown(text),
            Self::Away => StoreError::Unavailable(text),
        }
    }
}

#[derive(Debug, Default)]
struct Unanswered {
    /// Of the next rows of receives; those behind are confirmed.
    fates: Mutex<VecDeque<Fate>>,
    /// All rows of receives that were sent, with their fates.
    sent: Mutex<Vec<(Arc<Transition>, Option<Fate>)>>,
    /// Tasks whose keys were freed.
    freed: Mutex<Vec<TaskId>>,
    /// The late rows are written behind the first key that is freed.
    is_late_at_release: bool,
    /// Of the next document that is written.
    put: Mutex<Option<Fate>>,
    put_count: Mutex<u32>,
}

impl Unanswered {
    fn ids(&self) -> Vec<TaskId> {
        let sent = self.sent.lock();
        sent.iter().map(|(change, _)| change.task_id).collect()
    }

    /// The rows that are still to be written.
    fn late(&self) -> Vec<Arc<Transition>> {
        let sent = self.sent.lock();
        let late = sent.iter().filter(|(_, fate)| *fate == Some(Fate::Late));
        late.map(|(change, _)| change.clone()).collect()
    }

    fn frees(&self, changes: &[Arc<Transition>]) -> bool {
        let frees = |change: &&Arc<Transition>| {
            matches!(change.idempotency, Some(IdempotencyWrite::Abandon { .. }))
        };
        let tasks = changes.iter().filter(frees).map(|change| change.task_id);
        let mut freed = self.freed.lock();
        let before = freed.len();
        freed.extend(tasks);
        before == 0 && !freed.is_empty()
    }
}

#[async_trait]
impl Around for Unanswered {
    async fn commit(
        &self,
        store: &dyn Storage,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        let begins =
            |change: &&Arc<Transition>| matches!(change.receive, Some(ReceiveWrite::Begun { .. }));
        let Some(begun) = changes.iter().find(begins) else {
            let committed = store.commit(guard, changes).await;
            if self.frees(changes) && self.is_late_at_release {
                store.commit(guard, &self.late()).await?;
            }
            return committed;
        };
        let fate = self.fates.lock().pop_front();
        self.sent.lock().push((begun.clone(), fate));
        let Some(fate) = fate else {
            return store.commit(guard, changes).await;
        };
        if fate == Fate::Written {
            store.commit(guard, changes).await?;
        }
        Err(fate.error().into())
    }

    async fn put(
        &self,
        store: &dyn Storage,
        writes: &[DocumentWrite],
    ) -> Result<DocumentsPut, StoreError> {
        *self.put_count.lock() += 1;
        let fate = self.put.lock().take();
        match fate {
            None => store.put(writes).await,
            Some(Fate::Written) => store.put(writes).await.and(Err(Fate::Written.error())),
            Some(fate) => Err(fate.error()),
        }
    }
}

struct Site {
    ports: Ports,
    around: Arc<Through<Unanswered>>,
    engine: Engine,
    clock: TestClock,
    _folder: TempDir,
}

impl Site {
    async fn of(fates: &[Fate]) -> Self {
        let fates = Mutex::new(fates.iter().copied().collect());
        Self::with(Unanswered {
            fates,
            ..Unanswered::default()
        })
        .await
    }

    async fn with(unanswered: Unanswered) -> Self {
        let (folder, clock) = (tempfile::tempdir().expect("a folder"), TestClock::new());
        let paths = EmbeddedPaths {
            database: folder.path().join("counterstep.db"),
            objects: folder.path().join("objects"),
            scratch: folder.path().join("scratch"),
        };
        let ports = embedded::open(paths, clock.embedded()).await;
        let ports = ports.expect("a database");
        let mut cut = ports.clone();
        let (store, around) = cut
            .store
            .through(|storage| Through::new(storage, unanswered));
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

    fn planted(&self) -> &Unanswered {
        &self.around.around
    }

    async fn begin(&self) -> UploadSession {
        let task_type = *self.engine.registry.iter().next().expect("a task type");
        let session = UploadSession::begin(&self.engine, task_type, under_key()).await;
        session.expect("it begins")
    }

    /// A request whose file is stored.
    async fn session(&self) -> UploadSession {
        let mut session = self.begin().await;
        store_file(&mut session).await.expect("it is stored");
        session
    }

    /// The last row that was to be written late is.
    async fn write_late(&self) -> Result<Committed, CommitError> {
        let late = self.planted().late().pop().expect("a change");
        self.ports.store.commit_all(&[late]).await
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

    /// The process refreshes its row once, and frees keys.
    async fn refresh(&self) {
        keep_refreshed(&self.engine, Part::default(), Box::pin(async {})).await;
    }

    /// The type takes nothing but a probe.
    async fn disable(&self) {
        let now = self.ports.store.types().await.expect("an answer").now;
        let disabled = Disabled {
            since: now,
            probe_from: Some(now),
            probe: None,
        };
        let row = TypeRow {
            name: "Post".to_owned(),
            disabled: Some(disabled),
            rev: Rev(1),
            ..TypeRow::default()
        };
        let is_written = self.ports.store.put_type(&row).await.expect("an answer");
        assert!(is_written);
    }

    async fn probe(&self) -> Option<TaskId> {
        let rows = self.ports.store.types().await.expect("an answer").rows;
        let probe = rows.iter().find_map(|row| row.disabled?.probe);
        probe.map(|(task, _)| task)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_written_after_the_sweep_makes_no_task_of_files_that_are_gone() {
    let site = Site::of(&[Fate::Late]).await;
    let mut session = site.session().await;
    site.clock
        .advance_by(EngineSettings::default().upload_timeout * 3);
    site.sweep().await;
    assert_eq!(site.ports.objects.list("").count().await, 0);
    let written = site.write_late().await;
    assert!(written.is_ok(), "{written:?}");
    let submitted = session.submit().await;
    let refused = submitted.map(|it| it.answer.task_id);
    assert!(matches!(&refused, Err(SubmitError::TooSlow)), "{refused:?}");
    session.abandon("its files are gone").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_that_an_unanswered_row_has_claimed_is_that_of_its_own_request() {
    for fate in [Fate::Written, Fate::Late] {
        let site = Site::of(&[fate]).await;
        let mut session = site.session().await;
        assert_ne!(session.task_id(), site.planted().ids()[0], "{fate:?}");
        let submitted = session.submit().await.expect("accepted");
        assert_eq!(submitted.answer.task_id, session.task_id(), "{fate:?}");
        if fate == Fate::Late {
            let written = site.write_late().await;
            let is_taken = matches!(written, Err(CommitError::KeyTaken));
            assert!(is_taken, "{written:?}");
        }
        let again = site.session().await.submit().await.expect("repeated");
        assert!(again.replayed, "{fate:?}");
        assert_eq!(again.answer.task_id, session.task_id(), "{fate:?}");
        assert_eq!(site.ports.objects.list("").count().await, 1, "{fate:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_behind_a_lost_answer_a_request_goes_on_under_another_id() {
    let site = Site::of(&[Fate::Late, Fate::Away, Fate::Away]).await;
    let session = site.session().await;
    let ids = site.planted().ids();
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids[1..], [session.task_id(); 3]);

    let site = Site::of(&[Fate::Away]).await;
    let mut session = site.begin().await;
    let first = session.task_id();
    let refused = store_file(&mut session).await;
    assert!(matches!(refused, Err(SubmitError::Store(_))), "{refused:?}");
    store_file(&mut session).await.expect("it is stored");
    assert_eq!(site.planted().ids(), [first, first]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_lost_tries_that_claim_the_key_one_behind_the_other_are_those_of_their_request() {
    let site = Site::with(Unanswered {
        fates: Mutex::new([Fate::Written, Fate::Late].into()),
        is_late_at_release: true,
        ..Unanswered::default()
    });
    let site = site.await;
    let submitted = site.session().await.submit().await.expect("accepted");
    assert!(!submitted.replayed);
    assert_eq!(*site.planted().freed.lock(), site.planted().ids()[..2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_that_is_written_after_its_request_came_to_nothing_keeps_no_key() {
    let site = Site::of(&[Fate::Late]).await;
    let session = site.session().await;
    let lost = site.planted().ids()[0];
    eventually("its key is freed", || async {
        site.refresh().await;
        site.planted().freed.lock().contains(&lost).then_some(())
    })
    .await;
    session.abandon("its client is gone").await;
    site.write_late().await.expect("written");
    let again = send(&site.engine, "", &["one"]).await.expect("accepted");
    assert!(!again.replayed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_which_no_try_was_answered_keeps_no_key() {
    let site = Site::of(&[Fate::Late; 100]).await;
    let mut session = site.begin().await;
    let time = eventually("it gives up", || async {
        site.clock.advance("1s");
        None::<()>
    });
    let Either::Left((refused, _)) = select(pin!(store_file(&mut session)), pin!(time)).await
    else {
        panic!("it goes on for longer than its patience");
    };
    assert!(matches!(refused, Err(SubmitError::Store(_))), "{refused:?}");
    site.planted().fates.lock().clear();
    session.abandon("the database does not answer").await;
    site.refresh().await;
    site.write_late().await.expect("written");
    let again = send(&site.engine, "", &["one"]).await.expect("accepted");
    assert!(!again.replayed);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_try_that_is_written_late_is_freed_for_other_processes() {
    let site = Site::of(&[Fate::Late]).await;
    let engine = site.engine.clone();
    let alive = tokio::spawn(async move {
        keep_refreshed(&engine, Part::default(), Box::pin(pending::<()>())).await;
    });
    let session = site.session().await;
    let lost = site.planted().ids()[0];
    session.abandon("its client is gone").await;
    let is_freed = async |times: usize| {
        eventually("its key is freed", || async {
            site.clock.advance("1s");
            let freed = site.planted().freed.lock();
            let count = freed.iter().filter(|task| **task == lost).count();
            (count >= times).then_some(count)
        })
        .await
    };
    let before = is_freed(1).await;
    site.write_late().await.expect("written");
    // One may be under way that came before.
    is_freed(before + 2).await;
    let ports = site.engine.ports.clone();
    let registry = site.engine.registry.clone();
    let other = Engine::new(ports, registry, EngineSettings::default(), "api");
    let again = send(&other, "", &["one"]).await.expect("accepted");
    assert!(!again.replayed);
    alive.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_probe_of_a_disabled_type_goes_on_under_another_id_in_one_write() {
    for put in [None, Some(Fate::Written)] {
        let site = Site::of(&[Fate::Late]).await;
        site.disable().await;
        let mut session = site.begin().await;
        assert_eq!(site.probe().await, Some(session.task_id()));
        *site.planted().put.lock() = put;
        *site.planted().put_count.lock() = 0;
        store_file(&mut session).await.expect("it is stored");
        let submitted = session.submit().await.expect("accepted");
        assert_ne!(submitted.answer.task_id, site.planted().ids()[0]);
        assert_eq!(site.probe().await, Some(submitted.answer.task_id));
        assert_eq!(*site.planted().put_count.lock(), 1, "{put:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_cannot_go_on_under_another_id_leaves_its_place_to_the_next_one() {
    let site = Site::of(&[Fate::Late]).await;
    site.disable().await;
    let mut session = site.begin().await;
    *site.planted().put.lock() = Some(Fate::Away);
    let refused = match store_file(&mut session).await {
        Ok(()) => session.submit().await.map(drop),
        refused => refused,
    };
    assert!(matches!(refused, Err(SubmitError::Store(_))), "{refused:?}");
    session.abandon("the database is away").await;
    let next = site.session().await.submit().await.expect("the next probe");
    assert_eq!(site.probe().await, Some(next.answer.task_id));
}
