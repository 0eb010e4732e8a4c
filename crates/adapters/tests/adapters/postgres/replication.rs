//! A primary whose commits wait for its standby. Who ends that wait makes the primary answer as if all was well, with a
//! warning: nothing is done on that answer before the standby has it.

use super::lost_replies::Tick;
use super::{database, number, open, options, raw};
use crate::suite::changes::*;
use crate::suite::eventually;
use counterstep_adapters::postgres::PostgresStore;
use counterstep_contracts::TaskId;
use counterstep_kernel::client::SubmitError;
use counterstep_kernel::ports::{CommitError, Ports, Store, StoreError};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_steps::{Registry, Sql};
use counterstep_testkit::servers::{Postgres, Proxy};
use counterstep_testkit::{Form, LossyQueue, form};
use futures::future::join_all;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

/// What an administrator may do to a commit that waits.
const CANCEL: &str = "pg_cancel_backend";
const TERMINATE: &str = "pg_terminate_backend";

/// A primary with a standby that is away, and two processes behind an address that can move.
struct Pair {
    primary: Postgres,
    standby: Postgres,
    proxy: Proxy,
    url: String,
    store: Store,
    engine: Engine,
    other: Engine,
    admin: Client,
    _folders: [TempDir; 2],
}

impl Pair {
    async fn without_its_standby() -> Self {
        let primary = Postgres::primary();
        let url = primary.database();
        PostgresStore::migrate(&url, &options()).await.unwrap();
        let standby = primary.standby("s1", primary.port());
        primary.commits_wait_for(Some("s1"));
        let proxy = Proxy::to(primary.port());
        let store = open(&proxy.url(&url), options()).await;
        let (engine, folder) = engine_at(&proxy.url(&url)).await;
        let (other, other_folder) = engine_at(&proxy.url(&url)).await;
        let admin = raw(&url).await;
        standby.stop();
        Self {
            primary,
            standby,
            proxy,
            url,
            store,
            engine,
            other,
            admin,
            _folders: [folder, other_folder],
        }
    }

    fn submits(&self, engine: &Engine, key: &str) -> JoinHandle<Result<TaskId, SubmitError>> {
        let (engine, form) = (engine.clone(), Form::to::<Tick>().key(key));
        tokio::spawn(async move { form::try_submit(&engine, form).await })
    }

    async fn waiting(&self) -> i64 {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        number(&self.admin, waiting).await
    }

    async fn until_waiting(&self, least: i64) {
        eventually("commits that wait for the standby", || async {
            (self.waiting().await >= least).then_some(())
        })
        .await;
    }

    /// Ends the waits, in one of an administrator's ways.
    async fn end_waits(&self, how: &str) {
        let end =
            format!("SELECT count({how}(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
        number(&self.admin, &end).await;
    }

    /// Ends the wait of a submission, and returns when its task can be seen, which was made after `before` others, and when either
    /// a further commit waits or there is an answer.
    async fn ends_the_wait<T>(&self, how: &str, before: i64, answer: &JoinHandle<T>) {
        self.until_waiting(1).await;
        self.end_waits(how).await;
        eventually("a task that the standby does not have", || async {
            let tasks = number(&self.admin, "SELECT count(*) FROM tasks").await;
            (tasks > before).then_some(())
        })
        .await;
        eventually("another wait, or an answer", || async {
            (answer.is_finished() || self.waiting().await > 0).then_some(())
        })
        .await;
        assert!(
            !answer.is_finished(),
            "{how}: answered before the standby has it"
        );
    }

    /// The primary dies, and the standby takes its place.
    fn fails_over(&self) {
        self.primary.kill();
        self.standby.begin();
        self.standby.promote();
        self.proxy.redirect(self.standby.port());
    }

    /// Tasks on the server that was promoted.
    async fn on_the_standby(&self) -> i64 {
        let name = self.url.rsplit('/').next().expect("a name");
        number(
            &raw(&self.standby.url_of(name)).await,
            "SELECT count(*) FROM tasks",
        )
        .await
    }
}

async fn engine_at(url: &str) -> (Engine, TempDir) {
    let embedded = crate::embedded::fixture().await;
    let ports = Ports {
        store: open(url, options()).await,
        queue: Arc::<LossyQueue>::default(),
        ..embedded.ports
    };
    let registry = Arc::new(Registry::new().with::<Tick>());
    let engine = Engine::new(ports, registry, EngineSettings::default(), "test");
    (engine, embedded.folder)
}

#[tokio::test]
async fn a_submission_whose_wait_for_the_standby_was_ended_is_answered_once_the_standby_has_it() {
    let pair = Pair::without_its_standby().await;
    for (before, how) in [(0, CANCEL), (1, TERMINATE)] {
        let answer = pair.submits(&pair.engine, how);
        pair.ends_the_wait(how, before, &answer).await;
        pair.standby.begin();
        answer.await.unwrap().expect("accepted");
        pair.standby.stop();
    }
    let rows = number(&pair.admin, "SELECT count(*) FROM tasks").await;
    assert_eq!(rows, 2, "a task each");
}

#[tokio::test]
async fn a_task_that_the_standby_never_got_was_not_promised_and_is_made_there() {
    let pair = Pair::without_its_standby().await;
    let answer = pair.submits(&pair.engine, "key");
    pair.ends_the_wait(CANCEL, 0, &answer).await;
    pair.fails_over();
    assert_eq!(pair.on_the_standby().await, 0, "it never got there");
    if answer.await.unwrap().is_ok() {
        assert_eq!(pair.on_the_standby().await, 1, "a task that was promised");
    }
    let again = pair.submits(&pair.engine, "key").await.unwrap();
    again.expect("accepted");
    assert_eq!(pair.on_the_standby().await, 1);
}

/// The row of the key is there, and may yet be lost.
#[tokio::test]
async fn a_repeated_key_is_answered_once_the_standby_has_the_first_request() {
    let pair = Pair::without_its_standby().await;
    let first = pair.submits(&pair.engine, "key");
    pair.ends_the_wait(CANCEL, 0, &first).await;
    let repeated = pair.submits(&pair.other, "key");
    eventually("another wait, or an answer", || async {
        (repeated.is_finished() || pair.waiting().await > 1).then_some(())
    })
    .await;
    assert!(!repeated.is_finished() && !first.is_finished());
    pair.standby.begin();
    let (first, repeated) = (first.await.unwrap(), repeated.await.unwrap());
    assert_eq!(first.expect("accepted"), repeated.expect("the same"));
}

#[tokio::test]
async fn each_change_of_a_batch_whose_wait_was_ended_is_unknown() {
    let pair = Pair::without_its_standby().await;
    let changes: Vec<_> = (0..40).map(|_| submit(row(new_task()))).collect();
    let mut written = Box::pin(join_all(
        changes
            .iter()
            .map(|change| commit(&pair.store, NEW, change)),
    ));
    // The first goes alone, and the others together, in several statements at most.
    let answers = loop {
        tokio::select! {
            biased;
            answers = &mut written => break answers,
            () = pair.until_waiting(1) => pair.end_waits(CANCEL).await,
        }
    };
    for answer in answers {
        assert!(
            matches!(answer, Err(CommitError::Store(StoreError::Unknown(_)))),
            "{answer:?}"
        );
    }
}

/// In the order of the list, of which the first is a standby.
#[tokio::test]
async fn of_several_servers_the_one_that_takes_writes_is_used_and_another_within_five_seconds() {
    let primary = Postgres::primary();
    let url = primary.database();
    PostgresStore::migrate(&url, &options()).await.unwrap();
    let standby = primary.standby("s1", primary.port());
    primary.commits_wait_for(Some("s1"));
    let both = format!(":{},127.0.0.1:{}/", standby.port(), primary.port());
    let store = open(
        &url.replace(&format!(":{}/", primary.port()), &both),
        options(),
    )
    .await;
    let first = submitted(&store, row(new_task())).await;
    let position = || store.server_in_use().map(|it| (it.position, it.of));
    assert_eq!(position(), Some((2, 2)));
    primary.kill();
    standby.promote();
    let promoted = Instant::now();
    let second = submit(row(new_task()));
    while commit(&store, NEW, &second).await.is_err() {
        assert!(promoted.elapsed() < Duration::from_secs(5), "still away");
    }
    assert_eq!(position(), Some((1, 2)));
    let found = load(&store, first.task.id).await;
    assert_eq!(found.task, first.task, "it was replicated");
}

/// Of the same code and severity, also from the end of the transaction.
#[tokio::test]
async fn the_warnings_of_a_users_own_statements_change_nothing() {
    let url = database().await;
    let store = open(&url, options()).await;
    let admin = raw(&url).await;
    admin
        .batch_execute(
            "CREATE TABLE noisy (n INTEGER);
             CREATE FUNCTION warn() RETURNS TRIGGER LANGUAGE plpgsql AS
               $$ BEGIN RAISE WARNING 'canceling wait' USING ERRCODE = '01000'; RETURN NULL; END $$;
             CREATE TRIGGER at_once AFTER INSERT ON noisy FOR EACH ROW EXECUTE FUNCTION warn();
             CREATE CONSTRAINT TRIGGER at_the_end AFTER INSERT ON noisy DEFERRABLE INITIALLY DEFERRED
               FOR EACH ROW EXECUTE FUNCTION warn()",
        )
        .await
        .unwrap();
    let record = submitted(&store, row(new_task())).await;
    let mut change = after(&record);
    change.sql = vec![Sql::new("INSERT INTO noisy VALUES (1)").rows(1)];
    commit(&store, free(&record), &change)
        .await
        .expect("written");
    assert_eq!(number(&admin, "SELECT count(*) FROM noisy").await, 1);
}
